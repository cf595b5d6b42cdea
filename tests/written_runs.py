"""Run directories written by hand, for tests of reports: nothing is trained."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from pqn.config import Config
from pqn.presets import preset
from pqn.runs.metrics import MetricsWriter

GIF = (
    b"GIF89a\x01\x00\x01\x00\x80\x00\x00\x00\x00\x00\xff\xff\xff,\x00\x00\x00\x00\x01\x00\x01\x00\x00\x02\x02D\x01\x00;"
)


def write_run(
    path: Path,
    height: float = 100.0,
    seeds: int = 4,
    options: dict[str, object] | None = None,
    *,
    base: str = "cartpole",
    complete: bool = True,
    environment: dict[str, object] | None = None,
) -> Path:
    """A run whose greedy return rises to about `height`."""
    config = preset(base, options, seeds=seeds) if base else Config(seeds=seeds).replace(options)
    path.mkdir(parents=True)
    (path / "config.json").write_text(json.dumps(config.to_dict()))
    known = {
        "time": "2026-11-18T05:00:00+00:00",
        "command": ["pqn", "train", "cartpole", "--seeds", str(seeds)],
        "versions": {"python": "3.11.7", "jax": "0.10.2"},
        "git": {"commit": "0123abc", "dirty": True},
        "host": "secret-host",
        "device": "cpu: cpu",
    }
    (path / "environment.json").write_text(json.dumps(known | (environment or {})))
    rng = np.random.default_rng(int(height))
    with MetricsWriter(path / "metrics.jsonl") as metrics:
        for update in range(11):
            row = {"update": update, "step": 1024 * update}
            center = height * update / 10
            returns = rng.normal(center, 0.05 * height, size=(seeds, 6)).tolist()
            metrics.write({"kind": "eval", **row, "returns": returns, "info/win": [update / 10] * seeds})
            sums = {"episodes": [2.0] * seeds, "return_sum": [2 * center] * seeds}
            numbers = {"loss": rng.gamma(1.0, size=seeds).tolist(), "epsilon": 1 - update / 10}
            metrics.write({"kind": "train", **row, **sums, **numbers})
    if complete:
        times = {"wall_seconds": 12.5, "compile_seconds": 2.0, "train_seconds": 9.0, "steps_per_second": 1e5 + height}
        summary = {"preset": config.preset, "steps": 10240, "seeds": seeds, "device": "cpu: cpu", **times}
        (path / "summary.json").write_text(json.dumps(summary))
    return path
