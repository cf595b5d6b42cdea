"""All mutations, one file per part of the package."""

from __future__ import annotations

from . import (
    algorithms,
    environments,
    equations,
    experiments,
    host,
    layout,
    networks,
    presets,
    programs,
    records,
    simulators,
    theory,
)

MUTATIONS = [
    *equations.MUTATIONS,
    *algorithms.MUTATIONS,
    *programs.MUTATIONS,
    *layout.MUTATIONS,
    *host.MUTATIONS,
    *environments.MUTATIONS,
    *simulators.MUTATIONS,
    *networks.MUTATIONS,
    *presets.MUTATIONS,
    *theory.MUTATIONS,
    *records.MUTATIONS,
    *experiments.MUTATIONS,
]
