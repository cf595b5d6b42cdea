"""λ-returns and n-step returns: the only copies in this project."""

from __future__ import annotations

import jax

from pqn.types import Array


def lambda_returns(rewards: Array, discounts: Array, next_values: Array, lam: Array | float) -> Array:
    """Peng's Q(λ) return of every step of a rollout, computed backwards in time.

        R_t = r_t + γ_t · [ (1 − λ) · V(s_{t+1}) + λ · R_{t+1} ],        R_T = V(s_T)

    which is the λ-weighted sum of n-step returns, (1 − λ) Σ_n λⁿ⁻¹ G_t⁽ⁿ⁾, its last weight going to the longest
    return that the rollout holds. λ = 0 gives the one-step target r_t + γ_t V(s_{t+1}).

    Args:
      rewards: [T, ...] r_t.
      discounts: [T, ...] γ_t = γ·(1 − terminated_t), so that nothing flows back across the end of an episode.
      next_values: [T, ...] V(s_{t+1}) = max_a Q(s_{t+1}, a); ignored where the discount is 0.
      lam: λ in [0, 1].

    Returns:
      [T, ...] the targets R_0 … R_{T−1}.

    Examples:
      >>> import jax.numpy as jnp
      >>> r, d, v = jnp.array([1.0, 2.0]), jnp.array([0.5, 0.5]), jnp.array([10.0, 20.0])
      >>> [float(x) for x in lambda_returns(r, d, v, 0.0)]   # one-step: 1 + ½·10, 2 + ½·20
      [6.0, 12.0]
      >>> [float(x) for x in lambda_returns(r, d, v, 1.0)]   # two-step first: 1 + ½·(2 + ½·20)
      [7.0, 12.0]
    """

    def backwards(following: Array, step: tuple[Array, Array, Array]) -> tuple[Array, Array]:
        reward, discount, next_value = step
        current = reward + discount * ((1.0 - lam) * next_value + lam * following)
        return current, current

    # Unrolled because each step is a handful of flops: the loop itself would be the cost on an accelerator.
    unroll = min(16, rewards.shape[0])
    _, returns = jax.lax.scan(
        backwards, next_values[-1], (rewards, discounts, next_values), reverse=True, unroll=unroll
    )
    return returns


def n_step_returns(rewards: Array, discounts: Array, next_values: Array, n: int) -> Array:
    """The sum of n rewards and the value of what follows them.

        G_t = r_t + γ_t · ( r_{t+1} + γ_{t+1} · ( … + γ_{t+n−1} · V(s_{t+n}) ))

    Args:
      rewards: [T, ...] r_t.
      discounts: [T, ...] γ_t, 0 where the episode ends with the step.
      next_values: [T, ...] V(s_{t+1}).
      n: how many rewards, at most T.

    Returns:
      [T − n + 1, ...] G_0 … G_{T−n}.

    >>> import jax.numpy as jnp
    >>> r, d, v = jnp.array([1.0, 2.0]), jnp.array([0.5, 0.5]), jnp.array([10.0, 20.0])
    >>> [float(x) for x in n_step_returns(r, d, v, 1)]   # 1 + ½·10, 2 + ½·20
    [6.0, 12.0]
    >>> [float(x) for x in n_step_returns(r, d, v, 2)]   # 1 + ½·(2 + ½·20)
    [7.0]
    """
    count = len(rewards) - n + 1
    total = next_values[n - 1 :]
    for ahead in reversed(range(n)):
        total = rewards[ahead : ahead + count] + discounts[ahead : ahead + count] * total
    return total
