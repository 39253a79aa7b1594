"""Checks of the arguments of the control-set strategy that need no experiment."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from ax.exceptions.core import UserInputError

from ax_costaware.generators.method_settings import ROUNDING, checked_budget, is_number
from ax_costaware.policies.control_set_rules import CostEstimate
from ax_costaware.queries.control_sets import ControlSet
from ax_costaware.queries.joint import JointLaw
from ax_costaware.queries.marginals import Learned, Marginal


class NoValues:
    """Values for a first decision before there is an experiment: all are zero."""

    def __init__(self, costs: Sequence[float]) -> None:
        self._costs = costs

    def __call__(self, indices: Sequence[int]) -> Sequence[float]:
        """Zeros."""
        return [0.0 for _ in indices]

    def lower(self, indices: Sequence[int], pointwise: bool = False) -> Sequence[float]:
        """Zeros."""
        return [0.0 for _ in indices]

    def upper(self, indices: Sequence[int], pointwise: bool = False) -> Sequence[float]:
        """Zeros."""
        return [0.0 for _ in indices]

    def worst(self) -> float:
        """Zero."""
        return 0.0

    def costs(self, indices: Sequence[int]) -> Sequence[CostEstimate]:
        """The costs that it was made with."""
        return [CostEstimate(self._costs[i], 0.0) for i in indices]


def least_cost(control_set: ControlSet) -> float:
    """What a trial costs, or costs at least."""
    return control_set.fixed_cost if control_set.cost is None else control_set.cost


def checked_names(names: object) -> tuple[object, ...]:
    """Names of control sets as a tuple, whatever they are."""
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise UserInputError(f"initial_control_sets={names!r}: expected a list of names.")
    return tuple(names)


def checked_marginals(marginals: object) -> dict[str, Marginal]:
    """Marginals by name, as a dictionary of their own."""
    if not isinstance(marginals, Mapping):
        raise UserInputError(
            f"marginals={marginals!r}: expected a dictionary from parameter names to marginals."
        )
    for name, marginal in marginals.items():
        if not isinstance(name, str) or not isinstance(marginal, Marginal):
            raise UserInputError(
                f"marginals[{name!r}]={marginal!r}: expected a marginal such as Uniform(0, 1), "
                "under the name of a parameter."
            )
    return dict(marginals)


def check_joint(joint: object, marginals: Mapping[str, Marginal]) -> None:
    """Refuse what is no joint law, or one that does not go with the marginals."""
    if joint is None:
        return
    if not isinstance(joint, JointLaw):
        raise UserInputError(
            f"joint={joint!r}: expected a joint law such as JointEmpirical(frame), or None."
        )
    if twice := [name for name in joint.names if name in marginals]:
        raise UserInputError(
            f"marginals and joint both have {twice}: expected each input in one of them. Leave out "
            "of marginals what joint describes."
        )
    if learned := [name for name in joint.names if isinstance(joint.marginal(name), Learned)]:
        raise UserInputError(
            f"joint has Learned marginals, of {learned}: a joint law is not updated while the "
            "experiment runs. Give it marginals that stay, or move independent inputs to marginals."
        )


def checked_control_set_budget(
    budget: object, control_sets: tuple[ControlSet, ...]
) -> float | None:
    """A budget that pays for one trial of the cheapest control set, or None."""
    value = checked_budget(budget)
    cheapest = min(least_cost(control_set) for control_set in control_sets)
    if value is not None and value * (1 + ROUNDING) < cheapest:
        raise UserInputError(
            f"budget={budget!r} is below the cost of the cheapest control set, {cheapest:g}: "
            "expected a budget that pays for at least one trial."
        )
    return value


def checked_beta(beta: object) -> float:
    """A finite weight of at least zero."""
    if not is_number(beta) or not math.isfinite(beta) or beta < 0:
        expected = "a finite number >= 0, or a TheoreticalBeta"
        raise UserInputError(f"beta={beta!r}: expected {expected}.")
    return float(beta)
