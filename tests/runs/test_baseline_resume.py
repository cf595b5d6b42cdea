"""Runs of the baselines: killed and resumed, among other seeds, and with the buffer in other places, to the bit."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import jax
import numpy as np
import pytest
from conftest import build, run_updates, tiny

import bench.kill
import pqn
from pqn.progress import Progress
from pqn.runs import checkpoint

DQN: dict[str, object] = {
    "algorithm": "dqn",
    "replay.size": 200,  # less than the 640 steps of the run
    "replay.start": 100,
    "replay.batch": 4,
    "target.interval": 3,
    "target.n_step": 2,
}
PPO: dict[str, object] = {"algorithm": "ppo", "ppo.critic": "world"}
KILLED = """
    import os, signal
    import pqn
    from conftest import tiny
    from pqn.progress import Progress

    class Killing(Progress):
        def update(self, fields):
            if fields["step"] >= 5 * 64:
                os.kill(os.getpid(), signal.SIGKILL)

    pqn.train(tiny({options!r}), out={out!r}, progress=Killing(quiet=True))
"""


@pytest.mark.parametrize("options", [DQN, PPO], ids=lambda options: options["algorithm"])
def test_resume_after_kill_9_equals_an_uninterrupted_run(tmp_path, options):
    whole = pqn.train(tiny(options), out=tmp_path / "whole", progress=Progress(quiet=True)).run
    code = textwrap.dedent(KILLED).format(options=options, out=str(tmp_path / "cut"))
    source, tests = Path(pqn.__file__).parents[1], Path(__file__).parents[1]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, (source, tests)))}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    path = checkpoint.latest(tmp_path / "cut" / "checkpoints")
    assert path is not None
    arrays = checkpoint.read(path).arrays
    assert 0 < int(arrays["learner/updates"][0]) < 10
    parts = {name.split("/")[1] for name in arrays if name.startswith("learner/")}
    assert ({"buffer", "target"} <= parts) == (options is DQN)
    resumed = pqn.resume(tmp_path / "cut", progress=Progress(quiet=True)).run
    assert bench.kill.difference(resumed, whole) is None


@pytest.mark.parametrize("options", [DQN, PPO], ids=lambda options: options["algorithm"])
def test_a_seed_among_others_equals_the_seed_alone(options):
    """Buffer and target network included. The place of the buffer is compared in tests/programs/test_host_buffer.py."""
    alone = run_updates(build(tiny(options, seed=1, seeds=1)), 4)
    both = run_updates(build(tiny(options, seed=0, seeds=2)), 4)
    jax.tree.map(lambda a, b: np.testing.assert_array_equal(a[1], b[0]), both.learner, alone.learner)
    assert (options is DQN) == bool(jax.tree.leaves(alone.learner.buffer))
