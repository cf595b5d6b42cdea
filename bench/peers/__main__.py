"""Trains our baselines and a public implementation on the same task, and compares the final greedy returns.

    python -m bench.peers                      # all comparisons; about half an hour on two cores
    python -m bench.peers ppo-cartpole         # one of them
    python -m bench.peers --list

The peers are installed from PyPI into virtual environments of their own (`make peers`). Each comparison is written to
results/peers/NAME.json, with all that is needed to repeat it. Ours and theirs take the mean over the first full episode
of each evaluation environment, with the best or most probable action, after the last gradient step.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
import venv
from pathlib import Path

import pqn
from bench.peers.intervals import agree, difference, estimate
from bench.peers.tasks import TASKS, Task
from pqn.progress import Progress
from pqn.runs.provenance import describe_environment

ROOT = Path(__file__).parents[2]
PEERS = {
    # name: virtual environment, packages, script
    "stable-baselines3": (".venv-peers", ["torch==2.13.0", "stable-baselines3==2.9.2"], "sb3_side.py"),
    "rejax": (".venv-rejax", ["rejax==0.1.3", "gymnax==0.0.9"], "rejax_side.py"),
}
RULE = "mean over the first full episode of each evaluation environment, best or most probable action, final weights"
DIFFERENCES = {
    "stable-baselines3": (
        "our environment is the one of this package in JAX, theirs is gymnasium's",
        "our learning rate falls with every gradient step, theirs with every rollout",
        "PPO: our advantages are divided by √(mean square), theirs by the unbiased standard deviation",
        "DQN: our ε changes with every training, theirs with every step; until learning starts theirs acts at random",
        "DQN: a step cut by the time limit has no loss here; there it bootstraps from the last observation",
    ),
    "rejax": (
        "our environment is the one of this package on gymnax 1, theirs is that of gymnax 0.0.9",
        "one optimiser for actor and critic here, two there; without clipping, Adam does not notice",
    ),
}


def interpreter(peer: str) -> Path:
    """The Python of the peer's virtual environment, which is made where it is missing."""
    folder, packages, _ = PEERS[peer]
    python = ROOT / folder / "bin" / "python"
    if not (ROOT / folder / ".installed").exists():
        venv.create(ROOT / folder, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *packages], check=True)
        (ROOT / folder / ".installed").touch()
    return python


def theirs(task: Task) -> dict:
    """What the peer's script says: final returns per seed, and versions."""
    script = Path(__file__).with_name(PEERS[task.peer][2])
    done = subprocess.run(
        [interpreter(task.peer), script],
        input=json.dumps(task.theirs()),
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"JAX_PLATFORMS": "cpu", "PYTHONPATH": ""},
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{script.name} failed; its output is above")
    return json.loads(done.stdout)


def ours(task: Task) -> dict:
    """The same of our own training."""
    with tempfile.TemporaryDirectory() as folder:
        result = pqn.train(task.ours(), out=Path(folder) / "run", progress=Progress(quiet=True))
        return {"returns": result.summary["eval_return"]["per_seed"], "steps": result.summary["steps"]}


def compare(name: str, task: Task) -> dict:
    """The record of one comparison."""
    made_by = describe_environment() | {"command": f"python -m bench.peers {name}"}
    a, b = ours(task), theirs(task)
    return {
        "comparison": name,
        "question": f"is our {task.algorithm} on {task.env} the same algorithm as that of {task.peer}?",
        "score": RULE,
        "peer": task.peer,
        "seeds": list(range(task.seeds)),
        "steps_per_seed": task.steps,
        "evaluation_environments": task.eval_envs,
        "hyperparameters": {"hidden": list(task.hidden), **task.numbers},
        "known_differences": list(DIFFERENCES[task.peer]),
        "ours": a | {"interval_95": estimate(a["returns"])._asdict()},
        "theirs": b | {"interval_95": estimate(b["returns"])._asdict()},
        "difference_95": difference(a["returns"], b["returns"])._asdict(),
        "agree": agree(a["returns"], b["returns"]),
        "our_options": task.ours().to_dict(),
        "made_by": {key: value for key, value in made_by.items() if key != "host"},
    }


def line(record: dict) -> str:
    mine, peer, gap = (record[key] for key in ("ours", "theirs", "difference_95"))
    (a, b) = (side["interval_95"] for side in (mine, peer))
    return (
        f"{record['comparison']:<24} ours {a['mean']:7.1f} [{a['low']:.1f}, {a['high']:.1f}]   {record['peer']} "
        f"{b['mean']:7.1f} [{b['low']:.1f}, {b['high']:.1f}]   difference {gap['mean']:+.1f} "
        f"[{gap['low']:+.1f}, {gap['high']:+.1f}]   {'agree' if record['agree'] else 'DIFFER'}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="comparisons; all without any")
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "peers")
    parser.add_argument("--list", action="store_true", help="print the names of the comparisons")
    parser.add_argument("--install", action="store_true", help="only make the virtual environments")
    given = parser.parse_args()
    if unknown := [name for name in given.names if name not in TASKS]:
        parser.error(f"there is no comparison {unknown[0]}; there are {', '.join(TASKS)}")
    if given.list:
        print(*TASKS, sep="\n")
        return
    if given.install:
        for peer in PEERS:
            interpreter(peer)
        return
    given.out.mkdir(parents=True, exist_ok=True)
    for name in given.names or TASKS:
        record = compare(name, TASKS[name])
        (given.out / f"{name}.json").write_text(json.dumps(record, indent=1) + "\n")
        print(line(record), flush=True)


if __name__ == "__main__":
    main()
