"""Do two versions of this repository train the same parameters, bit for bit?

    python -m bench.identical REVISION [--presets NAME …] [--updates 3]

Trains each preset for a few updates with this working tree and with a checkout of REVISION, both by the command line,
and compares the bytes of every parameter in the final checkpoints. Exit 1 where a preset differs. A refactoring must
print "identical" everywhere; a fix that is meant to change numbers shows here which presets it changes.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from safetensors import safe_open

ROOT = Path(__file__).resolve().parent.parent
SMALL = {
    "cartpole": {},
    "cartpole-paper": {},
    "acrobot-paper": {},
    "minatar-breakout-paper": {"env.num_envs": 16, "learner.minibatches": 8},
    "minatar-asterix-paper": {"env.num_envs": 16, "learner.minibatches": 8},
    "cartpole-rnn": {"env.num_envs": 8, "learner.minibatches": 2},
    "smax-2s3z": {"env.num_envs": 4, "learner.minibatches": 2, "network.hidden": "32", "network.memory_size": 32},
    "overcooked-cramped_room": {"env.num_envs": 4, "learner.minibatches": 2, "network.conv": "matmul"},
    "atari-pong": {"env.num_envs": 4, "learner.minibatches": 2, "learner.rollout_steps": 8},
}
"""Presets, and the options that make an update of each a matter of seconds on a CPU."""


def command(preset: str, updates: int, out: Path, steps_per_update: int) -> list[str]:
    options = SMALL.get(preset, {}) | {"total_steps": updates * steps_per_update, "eval.count": 0, "seeds": 2}
    words = [word for name, value in options.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    return [sys.executable, "-m", "pqn", "train", preset, *words, "--out", str(out)]


def train(tree: Path, preset: str, updates: int, out: Path, steps_per_update: int) -> dict[str, str]:
    """The hash of each parameter after some updates with the code in `tree`."""
    environment = os.environ | {"PYTHONPATH": str(tree / "src"), "JAX_PLATFORMS": "cpu"}
    words = command(preset, updates, out, steps_per_update)
    done = subprocess.run(words, check=False, cwd=tree, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{preset} with {tree}: {done.stderr.strip().splitlines()[-1]}")
    newest = max((out / "checkpoints").glob("step-*"))
    with safe_open(newest / "state.safetensors", "numpy") as file:
        names = [name for name in file.keys() if name.startswith("learner/params/")]  # noqa: SIM118
        return {name: hashlib.sha256(file.get_tensor(name).tobytes()).hexdigest() for name in names}


def steps_per_update(preset: str) -> int:
    from pqn.presets import preset as load

    options: dict[str, Any] = {k: v for k, v in SMALL.get(preset, {}).items() if k != "network.hidden"}
    return load(preset).replace(options).steps_per_update


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("revision")
    parser.add_argument("--presets", nargs="+", default=list(SMALL))
    parser.add_argument("--updates", type=int, default=3)
    given = parser.parse_args()
    different = []
    with tempfile.TemporaryDirectory() as scratch:
        other = Path(scratch) / "other"
        subprocess.run(
            ["git", "worktree", "add", "--quiet", "--detach", str(other), given.revision], cwd=ROOT, check=True
        )
        try:
            for preset in given.presets:
                size = steps_per_update(preset)
                runs = {name: Path(scratch) / f"{preset}-{name}" for name in ("ours", "theirs")}
                ours = train(ROOT, preset, given.updates, runs["ours"], size)
                theirs = train(other, preset, given.updates, runs["theirs"], size)
                changed = sorted(name for name in ours.keys() | theirs.keys() if ours.get(name) != theirs.get(name))
                print(f"{preset:<28}{'different: ' + ', '.join(changed[:3]) if changed else 'identical'}", flush=True)
                different += [preset] if changed else []
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", str(other)], cwd=ROOT, check=True)
    print(json.dumps({"revision": given.revision, "updates": given.updates, "different": different}))
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
