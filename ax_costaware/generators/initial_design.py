"""The initial design: scrambled Sobol points, each for the inputs that its trial controls.

Trial ``i`` uses the ``i``-th control set of a cycle and the ``i``-th point of one scrambled Sobol
sequence, of which only the coordinates of controlled inputs are read; the other inputs are left to
chance, and the arm carries their nominal values. The design is a function of the seed and of the
number of initial trials so far, so it resumes where it stood. (The paper starts from uniformly
random points under the cheapest control set; Sobol points spread better.)
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from ax.core.parameter import ChoiceParameter, FixedParameter, ParameterType, RangeParameter
from ax.core.search_space import SearchSpace
from ax.core.types import TParameterization, TParamValue
from ax.exceptions.core import UserInputError
from torch.quasirandom import SobolEngine

from ax_costaware.adapter.experiment_checks import free_parameters
from ax_costaware.adapter.model_space import nominal_values
from ax_costaware.generators.budget import decision_seed
from ax_costaware.generators.control_set_settings import ControlSetSettings
from ax_costaware.queries.control_sets import ControlSet
from ax_costaware.records import CONTROL_SET

MAX_DRAWS = 10_000
"""Points tried for one trial before the parameter constraints count as impossible to meet."""


@dataclass(frozen=True)
class InitialDesign:
    """The initial trials of a strategy in a search space."""

    settings: ControlSetSettings
    """The settings of the strategy."""

    search_space: SearchSpace
    """The search space of the experiment."""

    def control_set(
        self,
        index: int,
        open_sets: Mapping[str, bool],
        costs: Mapping[str, float | None] | None = None,
    ) -> ControlSet | None:
        """Control set of the ``index``-th initial trial.

        Args:
            index: Number of initial trials before this one.
            open_sets: Whether each control set may be used, by name.
            costs: What each costs, by name, the declared costs by default; None if unknown.

        Returns:
            The first one that may be used, from that place of the cycle on; or else, of all
            control sets that may be used, the cheapest; None if there is none.
        """
        cycle = self.settings.initial_control_sets
        for step in range(len(cycle)):
            name = cycle[(index + step) % len(cycle)]
            if open_sets[name]:
                return self.settings.control_set(name)
        names = self.settings.names
        if costs is None:
            costs = dict(zip(names, self.settings.costs, strict=True))
        rest = [name for name in names if open_sets[name]]
        cheapest = min(rest, key=lambda name: costs[name] or 0.0, default=None)
        return None if cheapest is None else self.settings.control_set(cheapest)

    def arm(
        self, index: int, control_set: ControlSet, fixed: Mapping[str, TParamValue]
    ) -> TParameterization:
        """Parameters of the ``index``-th initial trial.

        Raises:
            UserInputError: If no point meets the parameter constraints.
        """
        parameters = free_parameters(self.search_space)
        base: TParameterization = {
            **{
                name: p.value
                for name, p in self.search_space.parameters.items()
                if isinstance(p, FixedParameter)
            },
            **nominal_values(parameters, self.settings.laws),
        }
        open_inputs = [name for name in control_set.parameters if name not in fixed]
        first = SobolEngine(len(parameters), scramble=True, seed=self.settings.seed)
        spare = SobolEngine(
            len(parameters), scramble=True, seed=decision_seed(self.settings.seed, index)
        )
        point = first.fast_forward(index).draw(1, dtype=torch.double)[0]
        columns = {name: column for column, name in enumerate(parameters)}
        for _ in range(MAX_DRAWS):
            arm = {
                **base,
                **{n: value_at(parameters[n], float(point[columns[n]])) for n in open_inputs},
                **fixed,
                CONTROL_SET: str(control_set.name),
            }
            if self._is_feasible(arm, control_set):
                return {name: arm[name] for name in self.search_space.parameters}
            point = spare.draw(1, dtype=torch.double)[0]
        raise UserInputError(
            f"no point among {MAX_DRAWS} met the parameter constraints "
            f"{self.search_space.parameter_constraints} with control set {control_set.name!r} and "
            f"the rest at the nominal values {base}: loosen the constraints or change the control "
            "sets."
        )

    def _is_feasible(self, arm: TParameterization, control_set: ControlSet) -> bool:
        """Whether ``arm`` meets the constraints that its trial has any influence on."""
        for constraint in self.search_space.parameter_constraints:
            names = constraint.constraint_dict
            if set(names) & set(control_set.parameters) and not constraint.check(
                {name: float(str(arm[name])) for name in names}
            ):
                return False
        return True


def value_at(parameter: RangeParameter | ChoiceParameter, u: float) -> TParamValue:
    """Raw value of ``parameter`` at the fraction ``u`` in [0, 1) of its range, on its own scale."""
    if isinstance(parameter, ChoiceParameter):
        return parameter.values[min(int(u * len(parameter.values)), len(parameter.values) - 1)]
    lower, upper = float(parameter.lower), float(parameter.upper)
    is_integer = parameter.parameter_type is ParameterType.INT
    if is_integer and not parameter.log_scale:
        return min(math.floor(lower + u * (upper - lower + 1)), int(upper))
    if parameter.log_scale:
        value = lower * (upper / lower) ** u
    elif parameter.logit_scale:
        low, high = _logit(lower), _logit(upper)
        value = float(torch.tensor(low + u * (high - low), dtype=torch.double).sigmoid())
    else:
        value = lower + u * (upper - lower)
    value = min(max(value, lower), upper)
    return round(value) if is_integer else float(parameter.cast(value) or 0.0)


def _logit(value: float) -> float:
    return float(torch.logit(torch.tensor(value, dtype=torch.double)))
