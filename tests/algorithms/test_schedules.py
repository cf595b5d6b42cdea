"""The course of ε and of the learning rate: one rule for the program and for the record, over any number of steps."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import build, run_updates, tiny

import pqn
from pqn.algorithms.base import Hyper, LearnerState, schedules
from pqn.config import Config
from pqn.errors import ConfigError
from pqn.networks.norms import BatchRenorm
from pqn.options import MOST
from pqn.programs import rollout
from pqn.progress import Progress
from pqn.runs.metrics import read_metrics


def test_part_of_a_long_run_is_its_beginning_to_the_bit(tmp_path):
    """A tenth of the steps under the whole schedule: the parameters are those of the long run after that many steps."""
    whole = run_updates(build(tiny(total_steps=6400)), 10)
    config = tiny({"learner.schedule_steps": 6400}, total_steps=640)
    part = run_updates(build(config), config.updates)
    jax.tree.map(np.testing.assert_array_equal, whole.learner, part.learner)
    squeezed = run_updates(build(tiny(total_steps=640)), 10)
    assert not np.array_equal(squeezed.learner.opt.mu.arrays[0], part.learner.opt.mu.arrays[0])

    run = pqn.train(config, out=tmp_path / "part", progress=Progress(quiet=True)).run
    row = [row for row in read_metrics(run / "metrics.jsonl") if row["kind"] == "train"][-1]
    assert (row["epsilon"], row["lr"]) == pytest.approx((1.0 - 0.8 * 0.5, 0.9e-4))  # ε falls over 20 of 100 updates


def test_the_record_says_what_the_program_does():
    config = tiny({"learner.eps_decay": 0.3, "learner.lr": 0.02, "learner.schedule_steps": 1280}, total_steps=640)
    hyper, learner = Hyper.of(config), build(config).algorithm
    per_update = config.learner.epochs * config.learner.minibatches
    for update in range(0, 25, 3):
        state: LearnerState = learner.init(jax.random.key(0))._replace(updates=jnp.int32(update))
        said = schedules(config, update)
        assert said["epsilon"] == pytest.approx(float(learner.epsilon(state, hyper)), rel=1e-6)
        rate = float(hyper.learning_rate(jnp.float32(update * per_update), per_update))
        assert said["lr"] == pytest.approx(rate, rel=1e-5, abs=1e-9)
    assert schedules(config, 20)["lr"] == 0.0 and schedules(config, 6)["epsilon"] == pytest.approx(0.2)
    assert schedules(config, 10)["lr"] == pytest.approx(0.01)  # the run ends in the middle of its schedule


def test_without_decay_a_schedule_may_be_shorter_than_the_run():
    config = tiny({"learner.schedule_steps": 320, "learner.lr_decay": False}, total_steps=640)
    assert config.schedule_updates == 5
    assert schedules(config, 9) == pytest.approx({"epsilon": 0.2, "lr": 1e-4})


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"learner.schedule_steps": 1000, "total_steps": 4096}, "the learning rate would be 0 for the rest of the run"),
        ({"learner.schedule_steps": 64, "learner.lr_decay": False}, "less than one rollout of 2048"),
        ({"learner.schedule_steps": -1}, "learner.schedule_steps"),
        ({"learner.schedule_steps": 1.5}, "learner.schedule_steps"),
        ({"total_steps": 2**31 * 2048}, f"a run can count {MOST - 1}, so lower total_steps, or raise"),
    ],
)
def test_a_schedule_that_cannot_be_is_refused(options, said):
    with pytest.raises(ConfigError, match=r"learner\.schedule_steps|total_steps") as error:
        Config().replace(options).validate()
    assert said in str(error.value)


def test_counters_of_very_long_runs_do_not_overflow():
    """At 2³¹ gradient steps and beyond the learning rate goes on falling, and ε stays where it ended."""
    longest = tiny(total_steps=64 * (MOST - 1))
    hyper, learner = Hyper.of(longest), build(tiny()).algorithm
    state = learner.init(jax.random.key(0))
    per_update = longest.learner.epochs * longest.learner.minibatches
    rates = []
    numbers = step_numbers(learner)
    for share in (0.25, 0.5, 0.75, 1.0):
        late = state._replace(updates=jnp.int32(int(share * (MOST - 2))))
        steps = np.asarray(numbers(late))
        assert np.all(np.isfinite(steps)) and np.all(np.diff(steps) >= 0) and steps[0] >= 0
        rates.append(float(hyper.learning_rate(steps[-1], per_update)))
        assert float(learner.epsilon(late, hyper)) == pytest.approx(0.2)
    assert rates == pytest.approx([0.75e-4, 0.5e-4, 0.25e-4, 0.0], rel=1e-5, abs=1e-10)


def step_numbers(learner):
    """A function of a state to the numbers of the gradient steps of its next update."""
    program = build(learner.config)
    stream = program.init_one(jnp.int32(0)).stream

    def prepare(state):
        _, data, _ = rollout.collect(program.env, learner, state, stream, jax.random.key(0), program.hyper)
        return learner.prepare(state, data, jax.random.key(1), program.hyper)[1].steps

    return jax.jit(prepare)


def test_batch_renorm_counts_no_further_than_it_can():
    layer, x = BatchRenorm(), jnp.arange(6.0).reshape(3, 2)
    variables = layer.init(jax.random.key(0), x, True)
    stats = variables["batch_stats"] | {"updates": jnp.int32(2**31 - 1)}
    out, changed = layer.apply(variables | {"batch_stats": stats}, x, True, mutable=["batch_stats"])
    assert int(changed["batch_stats"]["updates"]) == 2**31 - 1
    again, _ = layer.apply(variables | changed, x, True, mutable=["batch_stats"])
    assert np.all(np.isfinite(out)) and np.all(np.isfinite(again))
