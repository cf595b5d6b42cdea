"""Train in a simulator that is not written in JAX: rooms whose heating is switched on and off.

    python examples/simulator.py
    python examples/simulator.py --steps 20480   # quick, and not learned to the end

A simulator is N environments behind four methods: `reset`, `send`, `recv` and `close`. docs/simulators.md says what
more it may promise.
"""

from __future__ import annotations

import argparse

import numpy as np

import pqn
from pqn.types import TimeStep

EPISODE = 50  # steps


class Thermostat:
    """Keep N rooms at 20 degrees: each degree more or less costs 0.1. Action 1 heats, action 0 lets the room cool."""

    spec = pqn.EnvSpec(
        name="thermostat",
        obs_shape=(1,),
        obs_dtype=np.dtype("float32"),
        num_actions=2,
        max_episode_steps=EPISODE,
        truncates=True,  # episodes end by the clock, which the agent does not see
    )

    def __init__(self, num_envs: int):
        self.num_envs = num_envs

    def reset(self, seeds: np.ndarray) -> TimeStep:
        """Starts N episodes. Each environment has a generator of its own: who shares the pool must not matter."""
        self.rngs = [np.random.default_rng(seed) for seed in seeds]
        self.steps = np.zeros(self.num_envs, int)
        self.rooms = np.array([self.first_temperature(i) for i in range(self.num_envs)], "float32")
        none, all_ = np.zeros(self.num_envs, bool), np.ones(self.num_envs, bool)
        return self.time_step(np.zeros(self.num_envs), first=all_, truncated=none, final=self.rooms)

    def send(self, action: np.ndarray) -> None:
        """Takes the actions [N, 1]. A simulator with threads of its own would start to step here."""
        self.action = action[:, 0]

    def recv(self) -> TimeStep:
        """The outcome of the step. Where an episode ends, the next one begins within the same step."""
        self.rooms = self.rooms + np.where(self.action == 1, 1.0, -0.7).astype("float32")
        self.steps += 1
        reward = 1 - np.abs(self.rooms - 20) / 10
        done, final = self.steps == EPISODE, self.rooms.copy()
        for i in np.flatnonzero(done):
            self.rooms[i], self.steps[i] = self.first_temperature(i), 0
        return self.time_step(reward, first=done, truncated=done, final=final)

    def close(self) -> None:
        """Would end threads and processes."""

    def first_temperature(self, i: int) -> float:
        return self.rngs[i].uniform(10, 30)

    def time_step(self, reward, first, truncated, final) -> TimeStep:
        return TimeStep(
            obs=observe(self.rooms),
            first=first[:, None],
            reward=reward.astype("float32"),
            terminated=np.zeros(self.num_envs, bool),
            truncated=truncated,
            final_obs=observe(final),  # of the episode that ended, where one did
        )


def observe(degrees) -> np.ndarray:
    """What the agent sees, [N, 1 agent, 1 number]."""
    return ((np.asarray(degrees, "float32") - 20) / 10)[:, None, None]


def main() -> None:
    parser = argparse.ArgumentParser(description="Trains in a simulator outside of JAX.")
    parser.add_argument("--steps", type=int, default=200_000, help="environment steps")
    parser.add_argument("--out", help="the run directory (default: a new one in runs/)")
    args = parser.parse_args()

    pqn.check_env(Thermostat(4))
    config = pqn.preset("cartpole", total_steps=args.steps).replace({"network.hidden": (64,), "eval.num_envs": 16})
    result = pqn.train(config, env=Thermostat, out=args.out)

    print(f"greedy return {result.summary['eval_return']['mean']:.1f} of at most {EPISODE}")
    agent = result.agent()
    for degrees in (12, 16, 18, 19, 20, 21, 22, 28):
        action = agent.act([(degrees - 20) / 10])
        print(f"{degrees} degrees: {'heat' if action else 'let it cool'}")
    print(f"run: {result.run}")


if __name__ == "__main__":
    main()
