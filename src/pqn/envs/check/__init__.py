"""Does an environment keep the promises of the contract? `check_env` answers; each broken promise is one sentence."""

from pqn.envs.check.check import CheckReport, check_env, check_quickly, is_ours

__all__ = ["CheckReport", "check_env", "check_quickly", "is_ours"]
