"""The promise of the README: the default preset solves CartPole."""

from __future__ import annotations

import pqn
from pqn.progress import Progress


def test_cartpole_is_solved(tmp_path):
    result = pqn.train(pqn.preset("cartpole", seeds=3), out=tmp_path / "run", progress=Progress(quiet=True))
    assert result.summary["eval_return"]["mean"] >= 475
