"""All mutations, one file per part of the package."""

from __future__ import annotations

from . import (
    algorithms,
    environments,
    equations,
    host,
    layout,
    networks,
    presets,
    programs,
    records,
    reports,
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
    *reports.MUTATIONS,
]
