"""Two ways to count episodes, of the same play."""

from __future__ import annotations

import numpy as np

from bench.counting import count, interval


def test_first_episodes_and_all_episodes():
    #        environment 0 ends at steps 1 and 3, environment 1 at step 2, environment 2 never
    ended = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 0, 0]], bool)
    returns = np.array([[0, 0, 0], [-2.0, 0, 0], [0, -3.0, 0], [-1.0, 0, -4.0]])
    assert count(returns, ended) == {"first": -2.5, "all": -2.0, "first_episodes": 2, "all_episodes": 3}


def test_an_interval_of_students_t():
    found = interval([1.0, 2.0, 3.0])  # 4.3027 is the 97.5 % quantile for 2 degrees of freedom
    assert np.isclose(found["mean"], 2.0) and np.isclose(found["high"] - 2.0, 4.3027 / np.sqrt(3), atol=1e-3)
    assert np.isclose(found["high"] - found["mean"], found["mean"] - found["low"])
