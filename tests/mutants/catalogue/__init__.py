"""All mutations, one file per part of the package."""

from __future__ import annotations

from . import algorithms, environments, equations, host, networks, presets, programs, records, simulators, theory

MUTATIONS = [
    *equations.MUTATIONS,
    *algorithms.MUTATIONS,
    *programs.MUTATIONS,
    *host.MUTATIONS,
    *environments.MUTATIONS,
    *simulators.MUTATIONS,
    *networks.MUTATIONS,
    *presets.MUTATIONS,
    *theory.MUTATIONS,
    *records.MUTATIONS,
]
