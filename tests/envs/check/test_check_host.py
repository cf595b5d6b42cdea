"""`check_env` on environments outside of JAX: each broken promise gets its own sentence."""

from __future__ import annotations

import numpy as np
import pytest
from hostenvs import HostFromJax, Savable

from pqn.envs import check_env
from pqn.envs.probe import Counter, Gridworld, Masked
from pqn.errors import EnvError


@pytest.mark.parametrize("kind", [HostFromJax, Savable])
@pytest.mark.parametrize("env", [Counter(), Gridworld(), Masked()], ids=lambda env: env.spec.name)
def test_a_good_environment_passes(kind, env):
    report = check_env(kind(env, 4), steps=60)
    assert report.episodes > 0 and report.num_envs == 4 and "every promise kept" in str(report)


class Forgetful(HostFromJax):
    def _give(self, step):
        return super()._give(step)._replace(first=np.zeros((self.num_envs, 1), bool))


class Doubles(HostFromJax):
    def recv(self):
        step = super().recv()
        return step._replace(reward=step.reward.astype(np.float64))


class NoFinal(HostFromJax):
    def recv(self):
        step = super().recv()
        return step._replace(final_obs=step.obs)


class Raises(HostFromJax):
    def recv(self):
        raise OSError("the cable came loose")


class Unseeded(HostFromJax):
    calls = 0

    def reset(self, seeds):
        self.calls += 1
        return super().reset(seeds + self.calls)


class HalfSaved(Savable):
    def save(self):
        return {name: value for name, value in super().save().items() if name != "1"}

    def restore(self, saved):
        return super().restore(super().save() | saved)


class Growing(Savable):
    grown = 0

    def save(self):
        self.grown += 1
        return super().save() | {"more": np.zeros(self.grown)}


class Unstacked(HostFromJax):
    stacks = True


class ByPlace(HostFromJax):
    def reset(self, seeds):
        return super().reset(seeds + np.arange(len(seeds)))


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (Forgetful, "`first` is not set after `reset`"),
        (Doubles, "`reward` of `recv` has dtype float64 but it must be float32"),
        (NoFinal, "`final_obs` equals the reset observation"),
        (Raises, "`recv` raised OSError: the cable came loose"),
        (Unseeded, "the same seeds and actions gave two different results"),
        (HalfSaved, "`save` does not hold the whole state"),
        (Growing, "arrays of other shapes"),
        (Unstacked, r"`stacks` is set, but at step 0 of environment \d, where no game ended"),
    ],
)
def test_broken_promises_have_names(kind, said):
    with pytest.raises(EnvError, match=said):
        check_env(kind(Counter(), 4), steps=60)


def test_a_start_that_depends_on_the_place_is_noted():
    assert any("place among the others" in note for note in check_env(ByPlace(Counter(), 4), steps=60).notes)


def test_something_that_lacks_a_method_is_named():
    class Half:
        spec, num_envs = Counter().spec, 2

        def send(self, action):
            """The only one."""

    with pytest.raises(EnvError, match="a Half without `reset` and `recv` and `close`"):
        check_env(Half())
