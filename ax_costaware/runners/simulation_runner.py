"""Runner that simulates trials: uncontrolled inputs are drawn from declared distributions.

Uncontrolled inputs are drawn from their distributions, the objective is evaluated at the full
point, and the realized inputs are reported. The answer of an indirect query is the average of the
objective over the query's distribution of points. Values are in raw units, costs in the user's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import torch
from ax.core.base_trial import BaseTrial
from ax.core.types import TParamValue
from ax.exceptions.core import UserInputError
from torch import Tensor

from ax_costaware.argument_checks import instance_of, integer_at_least, nonnegative_number
from ax_costaware.ax_bridge.checks import ax_errors
from ax_costaware.core.traits import CONTROL_SET
from ax_costaware.costs import Cost
from ax_costaware.laws import (
    Conditional,
    Discrete,
    FiniteConditional,
    JointLaw,
    Marginal,
    Placement,
    RawValue,
)
from ax_costaware.methods.averages.law import policies_of
from ax_costaware.runners.function_runner import LocalRunner
from ax_costaware.runners.registry import trial_function
from ax_costaware.runners.reporting import terms_of
from ax_costaware.runners.result import AttemptState, TrialFunction, TrialResult, run_function
from ax_costaware.space.parameters import Choice, Value

OneCost: TypeAlias = float | Cost | Marginal
"""Number, function of the trial's values, or distribution of costs."""

CHOSEN = "__control_set__"
"""Key of the trial's control set among the values to set."""

_NUM_NODES = 512
"""Number of nodes that represent a joint distribution; each draw has new nodes and picks one."""


class SimulationRunner(LocalRunner):
    """Runner that simulates each trial from declared distributions, at once and in this process.

    For example::

        runner = SimulationRunner(yield_of, marginals={"wind": Uniform(0, 20)}, cost={"rig": 5.0})

    Draws depend only on ``seed``, the index of the trial and that of the attempt. So a simulation
    is reproducible, in any order of trials and across processes.

    Args:
        function: Objective at a full point, given as a dictionary by parameter: returns a number or
            a mapping from metric to numbers, or raises ``TrialFailedError``. Or its name from
            ``register_trial_function``; only a name can be stored.
        marginals: Distributions of independent inputs, by name. Controlled inputs are not drawn.
        joint: Joint distribution of dependent inputs; it is conditioned on the controlled ones.
        conditional: Distribution of points given an indirect query. ``conditional.within(lower,
            upper)`` bounds the points. The columns of a query are the experiment's parameters, in
            its order, or those that the conditional names. The outcome is the average of the
            function over the distribution, and no input is realized. Without a conditional
            ``function`` answers the query itself, as for a cell of a resolution tree.
        targets: Names of the columns of points, with ``conditional``.
        noise_std: Standard deviation of the noise on each outcome, in raw units.
        cost: Cost of a trial: a number, a ``Cost`` of the values of all parameters, or a marginal
            to draw it from; or a mapping from the name of the control set to any of these. None: no
            cost is reported, so the declared cost is charged.
        seed: Seed of all draws.
        retries: Number of further attempts after one that failed; each is drawn anew.

    Raises:
        UserInputError: If an argument is of the wrong type or out of range.
    """

    @ax_errors()
    def __init__(
        self,
        function: TrialFunction | str,
        *,
        marginals: Mapping[str, Marginal] | None = None,
        joint: JointLaw | None = None,
        conditional: Conditional | None = None,
        targets: Sequence[str] | None = None,
        noise_std: float = 0.0,
        cost: OneCost | Mapping[str, OneCost] | None = None,
        seed: int = 0,
        retries: int = 0,
    ) -> None:
        super().__init__(function, retries=retries)
        expected = "a mapping from parameter to its distribution"
        self.marginals = dict(instance_of(marginals, "marginals", Mapping | None, expected) or {})
        for name, law in self.marginals.items():
            expected = "a distribution such as ax_costaware.Uniform"
            instance_of(law, f"marginals[{name!r}]", Marginal, expected)
        expected = "a distribution such as ax_costaware.GaussianCopula, or None"
        self.joint = instance_of(joint, "joint", JointLaw | None, expected)
        expected = "a conditional such as ax_costaware.GaussianConditional, or None"
        self.conditional = instance_of(conditional, "conditional", Conditional | None, expected)
        if (conditional is None) != (targets is None) or isinstance(targets, str):
            raise UserInputError(
                f"conditional={conditional!r}, targets={targets!r}: expected both, with the names "
                "of the columns of points as a list, or neither."
            )
        self.targets = None if targets is None else list(targets)
        self.noise_std = nonnegative_number(noise_std, "noise_std")
        self.cost = _checked_costs(cost)
        self.seed = integer_at_least(seed, 0, "seed")

    def parameters_of(self, trial: BaseTrial) -> dict[str, TParamValue]:
        """Return the values to set, fixed ones, and the name of the control set if there is one.

        Raises:
            UserInputError: If an uncontrolled input has no distribution here, or its control
                set no cost.
        """
        arm = trial.arms[0].parameters if trial.arms else {}
        controlled = super().parameters_of(trial)
        known = {CONTROL_SET, *controlled, *self.marginals}
        known.update(() if self.joint is None else self.joint.names)
        inputs = trial.experiment.search_space.tunable_parameters
        if missing := [name for name in inputs if name not in known]:
            raise UserInputError(
                f"marginals has {list(self.marginals)}: expected distributions of {missing}, too, "
                f"which trial {trial.index} does not control, there or in joint."
            )
        chosen = None if terms_of(trial).controlled is None else arm[CONTROL_SET]
        if isinstance(self.cost, Mapping) and chosen not in self.cost:
            what = "has no control set" if chosen is None else f"has the control set {chosen!r}"
            raise UserInputError(
                f"cost={self.cost!r}: trial {trial.index} {what}. Expected a cost for each control "
                "set by its name, or one for all trials."
            )
        if self.conditional is not None:  # queries have the columns in this order
            names = self.conditional.query_names or trial.experiment.parameters
            return {name: controlled[name] for name in self.conditional.query_order(names)}
        fixed = {name: arm[name] for name in arm if name not in {*inputs, CONTROL_SET}}
        return {**fixed, **controlled, **({} if chosen is None else {CHOSEN: chosen})}

    def start(self, key: str, parameters: dict[str, TParamValue]) -> None:
        """Simulate the trial.

        Raises:
            UserInputError: If no function is registered under the name.
        """
        trial_index, attempt = (int(part) for part in key.rsplit("/", 2)[1:])
        random = np.random.default_rng([self.seed, trial_index, attempt])
        simulate = partial(self._simulate, trial_function(self.function), random)
        simulated: Future[AttemptState] = Future()
        simulated.set_result(run_function(simulate, parameters))
        self._attempts[key] = simulated

    def _simulate(
        self,
        function: TrialFunction,
        random: np.random.Generator,
        given: dict[str, TParamValue],
    ) -> TrialResult:
        control_set = given.pop(CHOSEN, None)
        realized: dict[str, TParamValue] = {}
        if self.joint is not None:
            realized.update(_draw_given(self.joint, given, random))
        realized.update({n: _draw(m, random) for n, m in self.marginals.items() if n not in given})
        point = {**given, **realized}
        if self.conditional is None:
            outcomes = _outcomes(function(dict(point)))
        else:
            points, weights = _answer_points(self.conditional, self.targets or [], given)
            found = [_outcomes(function(target)) for target in points]
            outcomes = {
                name: float(np.dot(weights, [one[name] for one in found])) for name in found[0]
            }
        noisy = {
            name: value + self.noise_std * random.standard_normal()
            for name, value in outcomes.items()
        }
        raw_data: Any = noisy.get("", noisy)
        return TrialResult(raw_data, realized or None, self._cost(control_set, point, random))

    def _cost(
        self, control_set: TParamValue, point: Mapping[str, Any], random: np.random.Generator
    ) -> float | None:
        cost: Any = self.cost
        if isinstance(cost, Mapping):
            cost = cost[str(control_set)]
        if isinstance(cost, Cost):
            return cost.at(point)
        if isinstance(cost, Marginal):
            return float(_draw(cost, random))
        return None if cost is None else float(cost)


def _draw(law: Marginal, random: np.random.Generator) -> RawValue:
    """Draw a value of an input, by the quantile function of its distribution."""
    u = torch.tensor([random.uniform()], dtype=torch.double)
    return law.decode(law.icdf(u))[0]


def _draw_given(
    law: JointLaw, given: Mapping[str, Any], random: np.random.Generator
) -> dict[str, Value]:
    """Draw the other inputs of a joint distribution, given some of them.

    One of the distribution's nodes is drawn by its weight. The nodes of a copula are draws
    themselves. Those of a sample are its rows, shifted as the distribution says.
    """
    names = list(dict.fromkeys((*law.names, *given)))
    # Texts and booleans are encoded by their index.
    codes = {
        name: Choice(name, marginal.values)
        for name in law.names
        if isinstance(marginal := law.marginal(name), Discrete) and not marginal.is_numeric
    }

    def number(name: str, value: Any) -> float:
        if value is None or name not in law.names:
            # Without effect: not part of the distribution, or overwritten.
            return 0.0
        return codes[name].encode(value) if name in codes else float(value)

    def transform(rows: Sequence[Mapping[str, RawValue]]) -> Tensor:
        numbers = [[number(n, row.get(n, given.get(n))) for n in names] for row in rows]
        return torch.tensor(numbers, dtype=torch.double)

    placement = Placement(
        transform=transform,
        columns={name: (i,) for i, name in enumerate(names)},
        independent={},
        num_nodes=_NUM_NODES,
        seed=int(random.integers(2**31)),
    )
    nodes, weights = law.nodes_given([n for n in given if n in law.names], placement)(
        transform([given])
    )
    positive = weights[0].detach().clamp_min(0.0)
    chosen = random.choice(len(positive), p=np.asarray(positive / positive.sum()))
    drawn = dict(zip(names, nodes[0, chosen].tolist(), strict=True))
    return {
        name: codes[name].decode(drawn[name]) if name in codes else drawn[name]
        for name in law.names
        if name not in given
    }


def _answer_points(
    conditional: Conditional, targets: Sequence[str], query: Mapping[str, Any]
) -> tuple[list[dict[str, Any]], np.ndarray]:
    """Return the points that an indirect query averages over, and their weights.

    Raises:
        UserInputError: If the conditional has another number of columns than ``targets``.
    """
    values = list(query.values())
    if isinstance(conditional, FiniteConditional):
        values = policies_of(conditional, values)
    nodes, weights = conditional.nodes_and_weights(torch.tensor([values], dtype=torch.double))
    if nodes.shape[-1] != len(targets):
        raise UserInputError(
            f"targets={list(targets)!r}: expected {nodes.shape[-1]} names, one for each column of "
            "the conditional's points."
        )
    points = [dict(zip(targets, map(float, node), strict=True)) for node in nodes[0]]
    return points, weights[0].detach().numpy()


def _outcomes(value: Any) -> dict[str, float]:
    """Return the outcomes by metric; a value without a metric has the empty name."""
    values = value if isinstance(value, Mapping) else {"": value}
    try:
        return {str(name): float(one) for name, one in values.items()}
    except (TypeError, ValueError):
        raise UserInputError(
            f"the simulated function returned {value!r}: expected a number, or a mapping from "
            "metric to numbers."
        ) from None


def _checked_costs(cost: Any) -> Any:
    if isinstance(cost, Mapping):
        return {str(name): _checked_cost(one, f"cost[{name!r}]") for name, one in cost.items()}
    return None if cost is None else _checked_cost(cost, "cost")


def _checked_cost(cost: Any, what: str) -> OneCost:
    return cost if isinstance(cost, Cost | Marginal) else nonnegative_number(cost, what)
