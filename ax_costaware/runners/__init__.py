"""Runners: they start trials for Ax and read what the user's function returns."""

from ax_costaware.runners.function_runner import FunctionRunner
from ax_costaware.runners.polled_runner import PolledRunner
from ax_costaware.runners.ray_runner import RayRunner
from ax_costaware.runners.registry import register_trial_function
from ax_costaware.runners.result import TrialFailedError, TrialResult
from ax_costaware.runners.simulation_runner import SimulationRunner
from ax_costaware.runners.submitit_runner import SubmititRunner

__all__ = [
    "FunctionRunner",
    "PolledRunner",
    "RayRunner",
    "SimulationRunner",
    "SubmititRunner",
    "TrialFailedError",
    "TrialResult",
    "register_trial_function",
]
