"""Bring an environment of your own: a cliff walk, written as pure functions of one environment.

    python examples/custom_environment.py
    python examples/custom_environment.py --steps 20480   # quick, and not learned to the end

`pqn train --env examples.custom_environment:CliffWalk` trains the same one from the command line.
"""

from __future__ import annotations

import argparse

import jax
import jax.numpy as jnp
import numpy as np

import pqn
from pqn.envs import Outcome

ROWS, COLUMNS = 4, 8
START, GOAL = (ROWS - 1, 0), (ROWS - 1, COLUMNS - 1)
MOVES = jnp.array([(-1, 0), (0, 1), (1, 0), (0, -1)])  # up, right, down, left


class CliffWalk:
    """Walk along a cliff: the cells between start and goal are a fall. Each step costs 0.02, the goal is worth 1."""

    spec = pqn.EnvSpec(
        name="cliff-walk",
        obs_shape=(ROWS, COLUMNS),
        obs_dtype=np.dtype("float32"),
        num_actions=4,
        max_episode_steps=50,
        truncates=True,  # an episode that reaches max_episode_steps is cut there, not finished
    )

    def reset(self, key):
        """The state of a new episode, and what the agent sees of it."""
        row = jax.random.randint(key, (), 0, ROWS)  # several starts: the agent learns more than one path
        position = jnp.array([row, START[1]])
        return position, self.see(position)

    def step(self, key, position, action):
        """One move. Vectorisation, the time limit and the reset after the last step are not your concern."""
        position = jnp.clip(position + MOVES[action], 0, jnp.array([ROWS - 1, COLUMNS - 1]))
        row, column = position
        at_goal = (row == GOAL[0]) & (column == GOAL[1])
        fallen = (row == ROWS - 1) & (column > START[1]) & ~at_goal
        reward = 1.0 * at_goal - 1.0 * fallen - 0.02
        return Outcome(position, self.see(position), reward, terminated=at_goal | fallen)

    def see(self, position):
        return jnp.zeros((ROWS, COLUMNS)).at[tuple(position)].set(1.0)


def draw(agent: pqn.Agent) -> str:
    """The greedy action in every cell."""
    cells = np.eye(ROWS * COLUMNS, dtype="float32").reshape(-1, ROWS, COLUMNS)  # one observation for each cell
    arrows = np.array(list("↑→↓←"))[agent.act(cells)].reshape(ROWS, COLUMNS)
    arrows[-1, 1:-1], arrows[GOAL] = "·", "G"  # the cliff, the goal
    return "\n".join(" ".join(row) for row in arrows)


def main() -> None:
    parser = argparse.ArgumentParser(description="Trains an environment of your own.")
    parser.add_argument("--steps", type=int, default=400_000, help="environment steps of each seed")
    parser.add_argument("--out", help="the run directory (default: a new one in runs/)")
    args = parser.parse_args()

    pqn.check_env(CliffWalk())  # says in one sentence which promise of the contract is broken, if one is
    config = pqn.preset("cartpole", seeds=2, total_steps=args.steps).replace({"network.hidden": (64,)})
    result = pqn.train(config, env=CliffWalk(), out=args.out)

    print(f"greedy return {result.summary['eval_return']['mean']:.2f} (the best possible: 0.82)")
    print(draw(result.agent()))
    print(f"run: {result.run}")


if __name__ == "__main__":
    main()
