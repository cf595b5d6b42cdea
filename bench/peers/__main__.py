"""Trains our baselines and a public implementation on the same task, and compares the final greedy returns.

    python -m bench.peers                      # all comparisons; about half an hour on two cores
    python -m bench.peers ppo-cartpole         # one of them
    python -m bench.peers --list

The peers are installed from PyPI into virtual environments of their own (`make peers`). Each comparison is written to
results/peers/NAME.json, with all that is needed to repeat it.
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
from pqn.play import evaluate_run
from pqn.progress import Progress
from pqn.runs.provenance import describe_environment

ROOT = Path(__file__).parents[2]
PEERS = {
    # name: virtual environment, packages, script
    "stable-baselines3": (".venv-peers", ["torch==2.13.0", "stable-baselines3==2.9.2"], "sb3_side.py"),
    "rejax": (".venv-rejax", ["rejax==0.1.3", "gymnax==0.0.9"], "rejax_side.py"),
}
SCORES = {
    "returns": "the mean over the first full episode of each evaluation environment, with the best or most probable "
    "action of the final weights",
    "drawn_returns": "the same with actions drawn from the policy",
}
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
        found = {"returns": result.summary["eval_return"]["per_seed"], "steps": result.summary["steps"]}
        if task.algorithm == "ppo":
            drawn = evaluate_run(result.run, task.eval_envs, epsilon=1.0)
            found["drawn_returns"] = [float(x) for x in drawn["return_mean"]]
        return found


def compare(name: str, task: Task) -> dict:
    """Trains both, and returns the record of the comparison."""
    made_by = describe_environment() | {"command": f"python -m bench.peers {name}"}
    made_by.pop("host")
    return record(name, task, ours(task), theirs(task), made_by)


def record(name: str, task: Task, a: dict, b: dict, made_by: dict) -> dict:
    """All about one comparison: what was asked, by which numbers, and what came out."""
    scores = [score for score in SCORES if score in a and score in b]
    verdicts = {
        score: {
            "what": SCORES[score],
            "ours_95": estimate(a[score])._asdict(),
            "theirs_95": estimate(b[score])._asdict(),
            "difference_95": difference(a[score], b[score])._asdict(),
            "agree": agree(a[score], b[score]),
        }
        for score in scores
    }
    return {
        "comparison": name,
        "question": f"is our {task.algorithm} on {task.env} the same algorithm as that of {task.peer}?",
        "agree": all(verdict["agree"] for verdict in verdicts.values()),
        "verdicts": verdicts,
        "peer": task.peer,
        "seeds": list(range(task.seeds)),
        "steps_per_seed": task.steps,
        "evaluation_environments": task.eval_envs,
        "hyperparameters": {"hidden": list(task.hidden), **task.numbers},
        "known_differences": list(DIFFERENCES[task.peer]),
        "ours": a,
        "theirs": b,
        "our_options": task.ours().to_dict(),
        "made_by": made_by,
    }


def lines(found: dict) -> list[str]:
    """One line for each score of a record."""
    out = []
    for score, verdict in found["verdicts"].items():
        mine, peer, gap = (verdict[key] for key in ("ours_95", "theirs_95", "difference_95"))
        out.append(
            f"{found['comparison']:<22} {score:<14} ours {mine['mean']:.1f} [{mine['low']:.1f}, {mine['high']:.1f}], "
            f"{found['peer']} {peer['mean']:.1f} [{peer['low']:.1f}, {peer['high']:.1f}], difference "
            f"{gap['mean']:+.1f} [{gap['low']:+.1f}, {gap['high']:+.1f}]: {'agree' if verdict['agree'] else 'DIFFER'}"
        )
    return out


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
        found = compare(name, TASKS[name])
        (given.out / f"{name}.json").write_text(json.dumps(found, indent=1) + "\n")
        print(*lines(found), sep="\n", flush=True)


if __name__ == "__main__":
    main()
