"""PQN's loss on samples of a buffer instead of on the last rollout: the paper's ablation of the replay buffer.

There is no target network. The targets are λ-returns within a sampled sequence, from the present network's own values;
with sequences of one step (feed-forward networks, unless `learner.segment_length` says otherwise) they are one-step
targets, whatever λ is. `replay.share` mixes the buffer with the last rollout.
"""

from __future__ import annotations

from pqn.algorithms.base import Hyper
from pqn.algorithms.replay import Replay, Sequences
from pqn.returns import lambda_returns
from pqn.types import Array, PyTree


class PQNReplay(Replay):
    """Sampling and loss are those of `Replay`; here are values and targets."""

    @property
    def lookahead(self) -> int:
        return 1

    def values(self, params: PyTree, q: Array, batch: Sequences, fixed: PyTree) -> Array:
        return self.actor.joint_value(params, q, batch.avail, batch.world)

    def targets(self, rewards: Array, discounts: Array, values: Array, hyper: Hyper) -> Array:
        return lambda_returns(rewards[:-1], discounts[:-1], values[1:], hyper.lam)


ALGORITHM = PQNReplay
