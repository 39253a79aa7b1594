"""The costly-feedback method without Ax: a loop around a process that is looked at now and then."""

from ax_costaware.policies.costly_feedback.domain import ResetEvery
from ax_costaware.policies.costly_feedback.loop import Ask, CostlyFeedbackLoop

__all__ = ["Ask", "CostlyFeedbackLoop", "ResetEvery"]
