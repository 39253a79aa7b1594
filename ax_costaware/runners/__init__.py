"""Runners: trials that Ax starts by itself, and what the user's function returns for them."""

from ax_costaware.runners.polled_runner import PolledRunner
from ax_costaware.runners.registry import register_trial_function
from ax_costaware.runners.result import TrialFailedError, TrialResult

__all__ = ["PolledRunner", "TrialFailedError", "TrialResult", "register_trial_function"]
