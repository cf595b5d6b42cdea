"""Bring a network of your own: a torso that also sees products of observations, compared with the usual one.

    python examples/custom_network.py
    python examples/custom_network.py --steps 20480   # quick, and not learned to the end

A torso is a part of the package: a class in pqn/networks/torsos.py and its name in pqn/config.py (CONTRIBUTING.md,
"A torso"). This script makes these two edits in a copy of the package, so that you can try a torso first.
"""

from __future__ import annotations

import argparse
import inspect
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import flax.linen as nn
import jax.numpy as jnp

import pqn
from pqn.networks.torsos import Torso
from pqn.types import Array


class Products(Torso):
    """The observation and all products of two of its numbers, then dense layers with normalisation."""

    @nn.compact
    def __call__(self, x: Array, train: bool) -> Array:
        x = x.reshape(x.shape[0], -1)
        products = (x[:, :, None] * x[:, None, :]).reshape(x.shape[0], -1)
        return self.dense(jnp.concatenate([x, products], axis=-1), train)


def edit(file: Path, old: str, new: str) -> None:
    """Replaces the only occurrence of `old`."""
    source = file.read_text()
    if source.count(old) != 1:
        sys.exit(f"{file} has {old!r} {source.count(old)} times, not once: this script is for another version of pqn")
    file.write_text(source.replace(old, new))


def install(package: Path) -> None:
    """The class before the table of torsos, an entry in the table, and the name among the values of the option."""
    table = "TORSOS: dict[str, Callable[..., Torso]] = {\n"
    entry = '    "products": Products,\n'
    edit(package / "networks" / "torsos.py", table, f"{inspect.getsource(Products)}\n\n{table}{entry}")
    edit(package / "config.py", '"hadamax"]', '"hadamax", "products"]')


def train(torso: str, steps: int, out: Path, path: str) -> float:
    """The final greedy return of two seeds, trained by the package at `path`."""
    words = f"train cartpole --network.torso {torso} --seeds 2 --total-steps {steps} --quiet --out".split()
    environment = os.environ | {"PYTHONPATH": path}
    subprocess.run([sys.executable, "-m", "pqn", *words, out], env=environment, check=True, stdout=subprocess.DEVNULL)
    return json.loads((out / "summary.json").read_text())["eval_return"]["mean"]


def main() -> None:
    parser = argparse.ArgumentParser(description="Trains a network of your own.")
    parser.add_argument("--steps", type=int, default=200_000, help="environment steps of each seed")
    parser.add_argument("--out", default="runs/torsos", help="where the runs go; must be new")
    args = parser.parse_args()

    with tempfile.TemporaryDirectory() as path:
        copy = Path(path) / "pqn"
        shutil.copytree(Path(pqn.__file__).parent, copy, ignore=shutil.ignore_patterns("__pycache__"))
        install(copy)
        for torso in ("mlp", "products"):
            result = train(torso, args.steps, Path(args.out) / torso, path)
            print(f"{torso:<10} greedy return {result:.1f}")
    print(f"curves: pqn plot {args.out}/mlp {args.out}/products -o curves.png")


if __name__ == "__main__":
    main()
