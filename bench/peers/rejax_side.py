"""rejax's part of a comparison: reads a task as JSON, trains all seeds, writes the final returns as JSON.

Runs in a virtual environment of its own, so nothing of `pqn` is imported here.
"""

from __future__ import annotations

import json
import sys
from importlib.metadata import version

import jax
import jax.numpy as jnp
import optax
from flax import linen as nn
from rejax import PPO


def make(task: dict) -> PPO:
    numbers = task["numbers"]
    assert numbers["clip_value"], "rejax always does"
    return PPO.create(
        env=task["env"],
        agent_kwargs={"activation": task["activation"], "hidden_layer_sizes": tuple(task["hidden"])},
        num_envs=numbers["envs"],
        num_steps=numbers["rollout"],
        num_epochs=numbers["epochs"],
        num_minibatches=numbers["minibatches"],
        learning_rate=learning_rate(task),
        gamma=numbers["gamma"],
        gae_lambda=numbers["lam"],
        clip_eps=numbers["clip"],
        ent_coef=numbers["entropy"],
        vf_coef=2.0 * numbers["value"],  # it has a factor ½ as well
        max_grad_norm=numbers["max_grad_norm"],  # of single numbers; the tasks clip nothing
        total_timesteps=task["steps"],
        eval_freq=task["steps"],
        skip_initial_evaluation=True,
    )


def learning_rate(task: dict) -> object:
    """A number; or, what optax takes as well, a schedule that falls to 0 with the last gradient step, as ours does."""
    numbers = task["numbers"]
    updates = task["steps"] // (numbers["envs"] * numbers["rollout"])
    steps = updates * numbers["epochs"] * numbers["minibatches"]
    return optax.linear_schedule(numbers["lr"], 0.0, steps) if numbers["lr_decay"] else numbers["lr"]


def start(algo: PPO, key: jax.Array) -> object:
    """Its initial state, with output layers as ours: orthogonal, a gain of 0.01 for the policy and 1 for the value."""
    state = algo.init_state(key)
    layers = {"actor_ts": ("action_logits", 0.01), "critic_ts": (None, 1.0)}
    for name, (layer, gain) in layers.items():
        train_state = getattr(state, name)
        params = jax.tree.map(lambda x: x, train_state.params)
        layer = layer or next(key for key in params["params"] if key.startswith("Dense"))
        kernel = params["params"][layer]["kernel"]
        key, drawn = jax.random.split(key)
        params["params"][layer]["kernel"] = nn.initializers.orthogonal(gain)(drawn, kernel.shape)
        state = state.replace(**{name: train_state.replace(params=params)})
    return state


def final_return(algo: PPO, state: object, key: jax.Array, envs: int, greedy: bool) -> jax.Array:
    """The mean over the first full episode of each evaluation environment, with the most probable or drawn actions."""

    def step(carry: tuple, key: jax.Array) -> tuple:
        obs, env_state, returns, running = carry
        logits = algo.actor.apply(state.actor_ts.params, obs, method="_action_dist").logits
        key, drawing = jax.random.split(key)
        action = jnp.argmax(logits, -1) if greedy else jax.random.categorical(drawing, logits)
        keys = jax.random.split(key, envs)
        next_step = jax.vmap(algo.env.step, in_axes=(0, 0, 0, None))
        obs, env_state, reward, done, _ = next_step(keys, env_state, action, algo.env_params)
        returns += jnp.where(running, reward.reshape(envs), 0.0)
        return (obs, env_state, returns, running & ~done), None

    first, rest = jax.random.split(key)
    obs, env_state = jax.vmap(algo.env.reset, in_axes=(0, None))(jax.random.split(first, envs), algo.env_params)
    carry = (obs, env_state, jnp.zeros(envs), jnp.ones(envs, bool))
    limit = algo.env_params.max_steps_in_episode + 1
    (_, _, returns, running), _ = jax.lax.scan(step, carry, jax.random.split(rest, limit))
    return jnp.where(running.any(), jnp.nan, returns.mean())


def main() -> None:
    task = json.load(sys.stdin)
    algo = make(task).replace(eval_callback=lambda algo, state, key: ())

    def train(seed: jax.Array) -> tuple:
        begin, end = jax.random.split(jax.random.PRNGKey(seed))
        state, _ = algo.train(train_state=start(algo, begin))
        return tuple(final_return(algo, state, end, task["eval_envs"], greedy) for greedy in (True, False))

    greedy, drawn = ([float(x) for x in scores] for scores in jax.jit(jax.vmap(train))(jnp.arange(task["seeds"])))
    versions = {name: version(name) for name in ("rejax", "gymnax", "jax", "flax", "optax", "numpy")}
    json.dump({"returns": greedy, "drawn_returns": drawn, "versions": versions}, sys.stdout)


if __name__ == "__main__":
    main()
