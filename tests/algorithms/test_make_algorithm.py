"""`make_algorithm`: the name in the configuration decides which algorithm learns."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import numpy as np
import pytest

from pqn.algorithms import make_algorithm
from pqn.algorithms.dqn import DQN
from pqn.algorithms.ppo import PPO
from pqn.algorithms.pqn import PQN
from pqn.algorithms.pqn_replay import PQNReplay
from pqn.config import ALGORITHMS, Config
from pqn.errors import ConfigError
from pqn.types import EnvSpec

SPEC = EnvSpec("numbers", (3,), np.dtype("float32"), num_actions=2)


class Another(PQN):
    """Found by its name below."""


def test_the_name_chooses_the_class(monkeypatch):
    monkeypatch.setitem(sys.modules, "pqn.algorithms.one_more", SimpleNamespace(ALGORITHM=Another))
    monkeypatch.setitem(ALGORITHMS, "one-more", ())
    assert type(make_algorithm(Config().replace(algorithm="one-more"), SPEC)) is Another
    assert type(make_algorithm(Config(), SPEC)) is PQN
    found = {
        name: type(make_algorithm(Config().replace(algorithm=name), SPEC)) for name in ("dqn", "pqn-replay", "ppo")
    }
    assert found == {"dqn": DQN, "pqn-replay": PQNReplay, "ppo": PPO}


def test_a_network_that_cannot_take_the_observations_is_refused():
    with pytest.raises(ConfigError, match=r"network.torso nature cannot take the observations of numbers"):
        make_algorithm(Config().replace({"network.torso": "nature"}), SPEC)
