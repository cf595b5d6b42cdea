"""Names to environments, and the sentences that a wrong name gets."""

import subprocess
import sys

import pytest

from pqn.envs import as_jax_env, available, make
from pqn.envs.autoreset import Autoreset
from pqn.envs.catalog import FAMILIES, Family
from pqn.envs.probe import PROBES, TEAMS, Counter
from pqn.errors import EnvError, PqnError

USER_MODULE = """
import numpy as np
import jax.numpy as jnp
from pqn.envs import Autoreset, Outcome
from pqn.types import EnvSpec

class Coin:
    def __init__(self, reward=1.0):
        self.reward = reward
        self.spec = EnvSpec("coin", (1,), np.dtype(np.float32), num_actions=2, max_episode_steps=1)
    def reset(self, key):
        return jnp.int32(0), jnp.ones(1)
    def step(self, key, state, action):
        return Outcome(state, jnp.ones(1), jnp.float32(self.reward), jnp.bool_(True))

def make_env(num_envs, reward=1.0):
    return Autoreset(Coin(reward), num_envs)

def make_two():
    return Autoreset(Coin(), 2)

def make_nothing():
    return None

def make_half():
    return type("Half", (), {"spec": None, "reset": None})()

def make_error(num_envs):
    raise RuntimeError("no such coin")

value = 3
"""


@pytest.fixture
def user_module(tmp_path, monkeypatch):
    name = f"user_env_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(USER_MODULE)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(tmp_path)
    yield name
    sys.modules.pop(name, None)


def test_names_of_every_form():
    assert make("CartPole-v1", 3).num_envs == 3
    assert make("gymnax:CartPole-v1", 3).spec.name == "CartPole-v1"
    assert isinstance(make("probe:endless", 2, limit=9).env.limit, int)
    with pytest.raises(EnvError, match="num_envs must be at least 1, not 0"):
        make("CartPole-v1", 0)


def test_the_list():
    rows = available()
    assert ("CartPole-v1", "gymnax") in [row[:2] for row in rows]
    assert [row.name for row in rows if row.family == "probe"] == [f"probe:{name}" for name in (*PROBES, *TEAMS)]
    assert all(row.description for row in rows) and len({row.name for row in rows}) == len(rows)


def test_listing_does_not_import_jax():
    code = (
        "import sys, pqn.envs, pqn.envs.registry as r; r.available(); assert not {'jax', 'gymnax'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("cartpole", "There is no environment 'cartpole', did you mean CartPole-v1. `pqn envs` lists them all"),
        ("CartPole-v0", "did you mean CartPole-v1"),
        ("Brakout-MinAtar", "did you mean Breakout-MinAtar"),
        ("breakout", "did you mean Breakout-MinAtar"),
        ("two-step", "did you mean probe:two-step"),
        ("probe:twostep", "There is no environment 'probe:twostep', did you mean probe:two-step"),
        ("probes:two-step", "no module 'probes' .* did you mean probe:two-step"),
        ("zzz", r"There is no environment 'zzz'\. `pqn envs` lists"),
        ("Pendulum-v1", "Pendulum-v1 has continuous actions"),
        ("MNISTBandit-bsuite", "MNISTBandit-bsuite downloads its data set"),
        ("no_such_module_xyz:make", "There is no module 'no_such_module_xyz' for 'no_such_module_xyz:make'"),
        (":make", "names no environment; write module:function"),
        ("module:", "names no environment; write module:function"),
    ],
)
def test_a_wrong_name_gets_a_sentence(name, sentence):
    with pytest.raises(EnvError, match=sentence) as caught:
        make(name, 2)
    assert isinstance(caught.value, ValueError) and isinstance(caught.value, PqnError)
    assert "\n" not in str(caught.value)


def test_user_environments(user_module):
    env = make(f"{user_module}:make_env", 3, reward=2.0)  # takes num_envs, returns a JaxEnv
    assert isinstance(env, Autoreset) and env.num_envs == 3
    env = make(f"{user_module}:Coin", 3, reward=2.0)  # returns a SingleEnv
    assert isinstance(env, Autoreset) and env.num_envs == 3
    assert make(f"{user_module}:make_two", 2).num_envs == 2


@pytest.mark.parametrize(
    ("function", "options", "sentence"),
    [
        ("make_two", {}, "what .*:make_two returned has 2 environments where 3 were asked for"),
        ("make_nothing", {}, "is a NoneType without `spec` and `reset` and `step`"),
        ("make_half", {}, "is a Half without `reset` and `step`"),
        ("make_error", {}, r"raised RuntimeError: no such coin \(user_env_.*py, line \d+\)"),
        ("make_env", {"size": 3}, "cannot be called with these options: .*'size'; its options are: reward"),
        ("make_envv", {}, "make_envv does not exist in the module .*, did you mean make_env"),
        ("value", {}, "value is not a function in the module"),
    ],
)
def test_a_wrong_user_environment_gets_a_sentence(user_module, function, options, sentence):
    with pytest.raises(EnvError, match=sentence):
        make(f"{user_module}:{function}", 3, **options)


def test_a_user_module_that_does_not_import(user_module, tmp_path):
    (tmp_path / f"{user_module}_a.py").write_text("import a_package_nobody_has\n")
    with pytest.raises(EnvError, match="needs 'a_package_nobody_has', which is not installed"):
        make(f"{user_module}_a:make", 1)
    (tmp_path / f"{user_module}_b.py").write_text("x = 1 / 0\n")
    with pytest.raises(EnvError, match=r"could not be imported: ZeroDivisionError: .*_b.py, line 1"):
        make(f"{user_module}_b:make", 1)
    (tmp_path / f"{user_module}_c.py").write_text("def f(:\n")
    with pytest.raises(EnvError, match="could not be imported: SyntaxError"):
        make(f"{user_module}_c:make", 1)


def test_a_family_whose_package_is_missing(user_module, tmp_path, monkeypatch):
    (tmp_path / f"{user_module}_family.py").write_text("import crafting_package\n")
    family = Family(f"{user_module}_family", {"Dig-v0": "dig"}, extra="crafting")
    monkeypatch.setitem(FAMILIES, "crafting", family)
    sys.path.insert(0, str(tmp_path))
    with pytest.raises(EnvError, match=r"crafting_package is not installed: pip install -e '\.\[crafting\]'"):
        make("Dig-v0", 1)


def test_objects_instead_of_names():
    assert as_jax_env(Counter(), 3).num_envs == 3
    env = Autoreset(Counter(), 3)
    assert as_jax_env(env, 3) is env
    with pytest.raises(EnvError, match="has 3 environments where 4 were asked for"):
        as_jax_env(env, 4)
