"""Torsos for images: the network of DQN, the residual one of IMPALA, and Hadamax.

They read [batch, height, width, channels] in [0, 1], which `image` makes of observations. Normalisation comes before
every non-linearity, as in all networks here. In an image it is over the channels of each position.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import flax.linen as nn
import jax.numpy as jnp

from pqn.networks.norms import Norm, in_front_of
from pqn.networks.torsos import CNN, INITS, Conv, Torso
from pqn.types import Array


def image(obs: Array, dtype: str) -> Array:
    """Observations as floats with their channels last.

    Bytes are divided by 255, here and nowhere else, before any normalisation of the input. Where the first axis is
    shorter than the last, it holds the channels, as in Atari's stack of frames (4, 84, 84). Emulators write frame by
    frame; moving the axis on the device saves the host a copy.
    """
    if obs.shape[1] < obs.shape[-1]:
        obs = jnp.moveaxis(obs, 1, -1)
    return obs.astype(dtype) / 255 if obs.dtype == jnp.uint8 else obs.astype(dtype)


class ImpalaCNN(Torso):
    """The residual network of IMPALA (Espeholt et al., 2018), its "deep" one: 15 convolutions in three stages.

    A stage is a 3×3 convolution (16, 32 and 32 filters), max-pooling of 3×3 with stride 2, and two residual blocks
    x + conv(act(conv(act(x)))). IMPALA has no normalisation. Here it is part of `act`, norm and then ReLU, so that the
    residual path has none.
    """

    @nn.compact
    def __call__(self, x: Array, train: bool) -> Array:
        def act(x: Array) -> Array:
            return nn.relu(Norm(self.norm)(x, train))

        for features in (16, 32, 32):
            x = self._conv(features)(x)
            x = nn.max_pool(x, (3, 3), (2, 2), "SAME")
            for _ in range(2):
                inner = self._conv(features)(act(x))
                x = x + self._conv(features)(act(inner))
        return self.dense(act(x), train)

    def _conv(self, features: int) -> Conv:
        return Conv(features, (3, 3), 1, self.conv != "native", self.dtype, INITS[self.kernel_init], same=True)


class HadamaxCNN(Torso):
    """Hadamax (Kooi et al., 2025, arXiv 2505.15345): Hadamard products and max-pooling in place of strides.

    The layers of DQN's network with three changes. Each convolution is two in parallel, with a padded border and stride
    1, and their outputs are multiplied: x ← GELU(norm(conv₁ x)) ⊙ GELU(norm(conv₂ x)). Max-pooling replaces the
    strides: 4×4 with stride 4, 2×2 with stride 2, and 3×3 with stride 1. All activations are GELU, the dense ones too.

    Sizes, padding, the order of norm, GELU and product, Glorot-normal convolutions and the tanh form of GELU are those
    of the authors' published code, not checked against their text; `network.init` is that of the dense layers, in
    their code he_normal.
    """

    @nn.compact
    def __call__(self, x: Array, train: bool) -> Array:
        init = nn.initializers.glorot_normal()
        conv, matmul = in_front_of(self.norm, Conv, train), self.conv != "native"
        names = (f"Conv_{number}" for number in range(6))
        for features, size, window, stride in ((32, 8, 4, 4), (64, 4, 2, 2), (64, 3, 3, 1)):
            branches = [
                conv(features, (size, size), 1, matmul, self.dtype, init, same=True, name=next(names))(x)
                for _ in range(2)
            ]
            left, right = (nn.gelu(Norm(self.norm)(branch, train)) for branch in branches)
            x = nn.max_pool(left * right, (window, window), (stride, stride), "SAME")
        return self.dense(x, train, "gelu")


TORSOS: dict[str, Callable[..., Torso]] = {
    "nature": partial(CNN, layers=((32, 8, 4), (64, 4, 2), (64, 3, 1))),
    "impala": ImpalaCNN,
    "hadamax": HadamaxCNN,
}
