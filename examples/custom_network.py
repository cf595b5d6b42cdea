"""Bring a network of your own: one that also sees products of observations, compared with the usual one.

    python examples/custom_network.py
    python examples/custom_network.py --steps 20480   # quick, and not learned to the end

`pqn train cartpole --network examples.custom_network:make_network` trains the same one from the command line.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import flax.linen as nn
import jax.numpy as jnp

import pqn


class Products(nn.Module):
    """The observation and all products of two of its numbers, then one dense layer with LayerNorm."""

    num_actions: int

    def initial_carry(self, *batch):
        return ()  # no memory; a recurrent network returns its state at the start of an episode, [*batch, …]

    @nn.compact
    def __call__(self, carry, inputs, train=False):
        """From observations [T, B, agents, …] to Q-values [T, B, agents, actions]."""
        x = inputs.obs.reshape(*inputs.obs.shape[:3], -1)
        products = (x[..., :, None] * x[..., None, :]).reshape(*x.shape[:3], -1)
        x = nn.Dense(128)(jnp.concatenate([x, products], axis=-1))
        return carry, nn.Dense(self.num_actions, name="head")(nn.relu(nn.LayerNorm()(x)))


def make_network(spec: pqn.EnvSpec) -> Products:
    return Products(spec.num_actions)


def main() -> None:
    parser = argparse.ArgumentParser(description="Trains a network of your own.")
    parser.add_argument("--steps", type=int, default=200_000, help="environment steps of each seed")
    parser.add_argument("--out", default="runs/networks", help="where the runs go; must be new")
    args = parser.parse_args()

    config = pqn.preset("cartpole", seeds=2, total_steps=args.steps)
    for name, network in (("usual", None), ("products", make_network)):
        result = pqn.train(config, network=network, out=Path(args.out) / name)
        print(f"{name:<10} greedy return {result.summary['eval_return']['mean']:.1f}")
    agent = pqn.load(Path(args.out) / "products", network=make_network)  # it must be given again
    print(f"Q-values of a pole that stands: {agent.q_values([0.0, 0.0, 0.0, 0.0])}")
    print(f"curves: pqn plot {args.out}/usual {args.out}/products -o curves.png")


if __name__ == "__main__":
    main()
