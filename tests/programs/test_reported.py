"""How the metrics of several updates add up in a row."""

from __future__ import annotations

import pytest

from pqn.programs.reported import is_last, is_mean


@pytest.mark.parametrize("name", ["loss", "grad_norm", "a metric of an algorithm that does not exist yet"])
def test_what_an_algorithm_reports_is_a_mean(name):
    assert is_mean(name) and not is_last(name)


@pytest.mark.parametrize("name", ["episodes", "return_sum", "info/wins_sum"])
def test_what_episodes_add_up_to_is_a_sum(name):
    assert not is_mean(name) and not is_last(name)


def test_the_norm_of_the_parameters_is_the_last_one():
    assert is_last("param_norm") and not is_mean("param_norm")
