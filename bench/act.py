"""Microseconds of one call of `agent.act` in Python, for one observation, beside those of its compiled program alone.

    python -m bench.act                          # the four of PRESETS
    python -m bench.act cartpole --calls 20000

The weights are fresh: what they are worth costs no time. Each row has the median of many calls, greedy and with ε.
`program` is the agent's own compiled program, called with arguments that are ready, until its action is on the host:
what is left for Python is the difference.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from collections.abc import Callable

import jax
import numpy as np

from pqn.agent import Agent
from pqn.algorithms import make_algorithm
from pqn.envs import registry
from pqn.presets import preset

PRESETS = ("cartpole", "minatar-breakout", "cartpole-rnn", "smax-2s3z")


def untrained(name: str) -> Agent:
    config = preset(name)
    env = registry.make(config.env.name, 1, **config.env.kwargs)
    actor = make_algorithm(config, env.spec).actor
    return Agent(actor, actor.init(jax.random.key(0)), 0)


def median(call: Callable[[], object], calls: int) -> float:
    """Microseconds."""
    for _ in range(100):
        call()
    times = np.empty(calls)
    for i in range(calls):
        began = time.perf_counter()
        call()
        times[i] = time.perf_counter() - began
    return round(float(np.median(times)) * 1e6, 1)


def measure(name: str, calls: int) -> dict[str, object]:
    agent = untrained(name)
    spec = agent.spec
    shape = (spec.num_agents, *spec.obs_shape) if spec.num_agents > 1 else spec.obs_shape
    obs = np.random.default_rng(0).random(shape).astype(spec.obs_dtype)
    agent.act(obs)
    ready = agent._before(obs.reshape(1, spec.num_agents, *spec.obs_shape), None, 0.0)
    rounds = [
        {
            "greedy": median(lambda: agent.act(obs), calls),
            "exploring": median(lambda: agent.act(obs, epsilon=0.1), calls),
            "program": median(lambda: np.asarray(agent._turn(*ready, None, None)[1]), calls),
        }
        for _ in range(3)  # in turn, so that all meet the same load of the machine
    ]
    best = {kind: min(each[kind] for each in rounds) for kind in rounds[0]}
    return {"preset": name, "agents": spec.num_agents, "hidden": agent.config.network.hidden} | best


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("presets", nargs="*", default=PRESETS)
    parser.add_argument("--calls", type=int, default=3000)
    given = parser.parse_args()
    rows = [measure(name, given.calls) for name in given.presets]
    about = {"device": jax.devices()[0].device_kind, "machine": platform.machine(), "jax": jax.__version__}
    print(json.dumps({"bench": "act", "unit": "µs, median"} | about | {"rows": rows}, indent=1, ensure_ascii=False))


if __name__ == "__main__":
    main()
