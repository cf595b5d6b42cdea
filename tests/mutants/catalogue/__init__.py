"""All mutations, one file per part of the package."""

from __future__ import annotations

from . import (
    algorithms,
    baselines,
    environments,
    equations,
    experiments,
    fleet,
    host,
    layout,
    networks,
    presets,
    programs,
    records,
    reports,
    scale,
    simulators,
    theory,
    traces,
    trust,
    watching,
)

MUTATIONS = [
    *equations.MUTATIONS,
    *algorithms.MUTATIONS,
    *baselines.MUTATIONS,
    *programs.MUTATIONS,
    *layout.MUTATIONS,
    *host.MUTATIONS,
    *environments.MUTATIONS,
    *traces.MUTATIONS,
    *simulators.MUTATIONS,
    *networks.MUTATIONS,
    *presets.MUTATIONS,
    *theory.MUTATIONS,
    *records.MUTATIONS,
    *scale.MUTATIONS,
    *fleet.MUTATIONS,
    *watching.MUTATIONS,
    *reports.MUTATIONS,
    *experiments.MUTATIONS,
    *trust.MUTATIONS,
]
