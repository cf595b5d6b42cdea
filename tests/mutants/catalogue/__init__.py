"""All mutations, one file per part of the package."""

from __future__ import annotations

from . import core, environments, host, networks, presets, records, simulators, theory

MUTATIONS = [
    *core.MUTATIONS,
    *host.MUTATIONS,
    *environments.MUTATIONS,
    *simulators.MUTATIONS,
    *networks.MUTATIONS,
    *presets.MUTATIONS,
    *theory.MUTATIONS,
    *records.MUTATIONS,
]
