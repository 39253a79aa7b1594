"""What is refused by the arguments of costly feedback alone; and what the rest means."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from botorch.models import SingleTaskGP

from ax_costaware.core.history import PastTrial
from ax_costaware.core.model import FixedHyperparameters, ModelOptions
from ax_costaware.core.problem import Decision, Pending, Problem
from ax_costaware.core.simulation import Outcome, Simulation, simulate
from ax_costaware.costs import AffineCost, SwitchingCost
from ax_costaware.exceptions import InputError
from ax_costaware.methods import LogarithmicBeta
from ax_costaware.methods.costly_feedback import CostlyFeedback
from ax_costaware.methods.costly_feedback.rules import (
    FeedbackRule,
    FullFeedback,
    MeasurementChoice,
    MeasurementRule,
    MixedRule,
    Prospect,
)
from ax_costaware.models import TimeVaryingGP
from ax_costaware.models.fixed_hyperparameters import FixedTimeVaryingGP
from ax_costaware.space.parameters import Range
from ax_costaware.space.space import Space

OWN = ModelOptions("own", TimeVaryingGP, {"forgetting": 0.1})


@dataclass(frozen=True)
class RivalsOfItsOwn(FeedbackRule):
    """A user's rule that wants rivals of a kind that there is not."""

    compare: Any = "optima"

    def decide(self, prospect: Prospect) -> MeasurementChoice:
        return MeasurementChoice(True, "always")


BAD_ARGUMENTS: list[tuple[dict[str, Any], str]] = [
    ({"rule": 0.9}, "rule=0.9: expected a rule such as MeasurementRule"),
    ({"rule": MeasurementRule}, "rule=.*MeasurementRule.*: expected"),
    (
        {"rule": RivalsOfItsOwn()},
        r"rule=RivalsOfItsOwn.*: compare='optima': expected one of \['correlation', 'local_optima'",
    ),
    ({"rule": MixedRule(RivalsOfItsOwn(None), 0.1, 0.5), "cost": 0}, "cost=0"),
    ({"beta": -1.0}, "beta=-1.0: expected a finite number >= 0"),
    ({"beta": "log"}, "beta='log': expected"),
    ({"cost": 0}, "cost=0: expected a finite number > 0"),
    ({"cost": math.nan}, "cost=nan: expected"),
    ({"cost": ""}, "cost='': expected a finite number > 0, .* the name of the metric"),
    ({"cost": SwitchingCost({"x": 1.0}, 1.0)}, "cost=Switching.*: expected the cost of a measure"),
    ({"cost": "hours", "time": "hours"}, "time='hours' and cost='hours' are one metric"),
    ({"cost": "hours", "cost_model": "cubic"}, "cost_model='cubic': expected one of"),
    ({"budget": 0}, "budget=0: expected a finite number > 0, or None"),
    ({"budget": math.inf}, "budget=inf"),
    (
        {"budget": 4.9},
        r"budget=4.9: it does not pay for the measurements of initial_trials=5 at cost=1.0, "
        "which take 5",
    ),
    ({"budget": 0.5, "initial_trials": 0}, "budget=0.5: it does not pay"),
    ({"time": ""}, "time='': expected the name of the metric"),
    ({"time": 3}, "time=3: expected the name"),
    ({"forgetting": 0.0}, "forgetting=0.0: expected a number strictly between 0 and 1"),
    ({"forgetting": 1}, "forgetting=1: expected"),
    ({"forgetting": math.nan}, "forgetting=nan: expected"),
    ({"initial_trials": -1}, "initial_trials=-1: expected an integer >= 0"),
    ({"charge_initial": 1}, "charge_initial=1: expected True or False"),
    ({"seed": 1.5}, "seed=1.5: expected an integer"),
    ({"num_restarts": 0}, "num_restarts=0: expected an integer >= 1"),
    ({"raw_samples": 0}, "raw_samples=0"),
]


@pytest.mark.parametrize(("change", "message"), BAD_ARGUMENTS)
def test_bad_arguments(change: dict[str, Any], message: str) -> None:
    """Each message names the argument, what it got and what it takes."""
    with pytest.raises(InputError, match=message):
        CostlyFeedback(**change)


@pytest.mark.parametrize(
    ("forgetting", "given", "message"),
    [
        (
            None,
            FixedHyperparameters(0.2),
            "forgetting=None with surrogate_spec .of a Simulation: hyperparameters.=Fix",
        ),
        (
            None,
            ModelOptions("plain", SingleTaskGP),
            "surrogate_spec .*hyperparameters. has the model class .*SingleTaskGP.*: expected T",
        ),
        (None, ModelOptions("none", None), "model class None: expected TimeVaryingGP"),
        (0.2, OWN, "forgetting=0.2, and surrogate_spec .*hyperparameters. has"),
    ],
)
def test_bad_models(forgetting: float | None, given: Any, message: str) -> None:
    """A model has to know the time, and the forgetting rate in one place."""
    with pytest.raises(InputError, match=message):
        CostlyFeedback(forgetting=forgetting).model(given)


def test_numbers_are_plain_ones() -> None:
    """So that methods made from numpy's compare equal after a reload."""
    method = CostlyFeedback(
        beta=np.float64(2.0),
        cost=np.float32(0.5),  # type: ignore[arg-type]
        budget=np.float64(9.0),
    )
    assert method == CostlyFeedback(beta=2.0, cost=0.5, budget=9.0)
    assert [type(v) for v in (method.beta, method.cost, method.budget)] == [float] * 3


def test_beta_grows_with_the_trials() -> None:
    """The schedule counts trials from one; a number holds."""
    method = CostlyFeedback(beta=LogarithmicBeta(0.5, 3.0))
    assert [method.beta_at(i) for i in (0, 9)] == [0.5 * math.log(3), 0.5 * math.log(30)]
    assert [CostlyFeedback(beta=b).beta_at(9) for b in (2.0, 0.0)] == [2.0, 0.0]


def test_what_a_budget_pays() -> None:
    """Ten measurements of 0.1 fit in a budget of one, and an eleventh does not."""
    method = CostlyFeedback(cost=0.1, budget=1.0)

    def measured(method: CostlyFeedback, count: int) -> bool:
        trials = tuple(
            PastTrial(i, {"x": 0.5}, outcome=1.0, record={"phase": "initial"}) for i in range(count)
        )
        space = Space.of([Range("x", 0, 1)])
        decision = method.initial(Problem(space, trials, draw=lambda: {"x": 0.5}))
        assert isinstance(decision, Decision)
        assert decision.expected_cost == (method.cost if decision.extra["measure"] else 0.0)
        return bool(decision.extra["measure"])

    assert [measured(method, count) for count in range(12)] == [True] * 10 + [False] * 2
    assert measured(CostlyFeedback(cost=0.1), 99)
    free = CostlyFeedback(budget=1.0, charge_initial=False)
    assert measured(free, 9), "initial trials are on the house"


@pytest.mark.parametrize(
    ("forgetting", "given", "model", "options"),
    [
        (None, None, TimeVaryingGP, {}),
        (0.2, None, TimeVaryingGP, {"forgetting": 0.2}),
        (None, OWN, TimeVaryingGP, {"forgetting": 0.1}),
        (
            0.05,
            FixedHyperparameters(0.2),
            FixedTimeVaryingGP,
            {
                "lengthscale": 0.2,
                "outputscale": 1.0,
                "noise_variance": 1e-4,
                "mean": 0.0,
                "forgetting": 0.05,
            },
        ),
    ],
)
def test_the_model(
    forgetting: float | None, given: Any, model: type, options: dict[str, Any]
) -> None:
    """A model that knows time, with the forgetting rate that was given."""
    method = CostlyFeedback(forgetting=forgetting)
    found = method.model(given)
    assert found.model_class is model
    assert found.options == options


@pytest.mark.parametrize("forgetting", [None, 0.05])
def test_the_default_rule(forgetting: float | None) -> None:
    """Who learns how fast things change has to look now and then."""
    method = CostlyFeedback(forgetting=forgetting, initial_trials=2, num_restarts=2, raw_samples=32)
    run = simulate(method, FEEDBACK_SPACE, lambda row, _: Outcome(float(str(row["x"]))), 3)
    kind = MixedRule if forgetting is None else MeasurementRule
    assert run.trials[-1].decision["rule"].startswith(kind.__name__)


STEEP = AffineCost({"x": 4.0}, fixed=0.5)
"""A cost between 0.5 and 4.5."""

FEEDBACK_SPACE = Space.of([Range("x", 0, 1)])


def simulation_of(**settings: Any) -> Simulation:
    """A run with a cost of the settings that has not begun."""
    given = {"cost": STEEP, "forgetting": 0.02, "initial_trials": 3, "rule": FullFeedback()}
    method = CostlyFeedback(**{**given, **settings})
    model = FixedHyperparameters(lengthscale=0.2, noise_variance=1e-3)
    return Simulation(method, FEEDBACK_SPACE, hyperparameters=model)


def run_of(count: int, peak: float, **settings: Any) -> Simulation:
    """A run on a parabola."""
    simulation = simulation_of(**settings)
    for _ in range(count):
        decision = simulation.ask()
        assert isinstance(decision, Decision)
        value = -((float(str(decision.parameters["x"])) - peak) ** 2)
        simulation.tell(decision, Outcome(value if decision.extra["measure"] else None))
    return simulation


def test_a_cost_of_the_settings_is_that_of_each_trial() -> None:
    """In records, the ledger, reservations and the budget."""
    simulation = run_of(9, 0.3, budget=15.0)
    for trial, entry in zip(simulation.trials, simulation.ledger, strict=True):
        measured = bool(trial.record["measure"])
        cost = STEEP.at(trial.parameters) if measured else 0.0
        assert entry.charged == trial.record["expected_cost"] == cost
    assert sum(entry.charged for entry in simulation.ledger) <= 15.0
    method, problem = simulation.method, simulation.problem()
    both = (Pending(None, {"x": 0.5}), Pending(None, {"x": 1.0}, measure=False))
    assert method.reservations(replace(problem, pending=both), False) == [2.5, 0.0]


def test_what_cannot_be_paid_at_the_bound_is_not_measured_there() -> None:
    """The trial is at the best mean, and measured where that can be paid; and why is said."""
    simulation = run_of(5, 0.1, beta=4.0)
    decision = simulation.ask()
    assert isinstance(decision, Decision)
    assert decision.expected_cost is not None
    assert float(str(decision.parameters["x"])) > 0.4, "the bound is largest where nothing is known"
    capped = replace(simulation.method, max_trial_cost=1.5)
    later = Simulation(
        capped,
        FEEDBACK_SPACE,
        hyperparameters=FixedHyperparameters(lengthscale=0.2, noise_variance=1e-3),
        trials=list(simulation.trials),
    ).ask()
    assert isinstance(later, Decision)
    assert later.details["beta"] == 0.0
    assert "best posterior mean" in later.why
    assert later.extra["measure"]
    assert later.expected_cost == STEEP.at(later.parameters) <= 1.5
    expensive = run_of(7, 0.9, max_trial_cost=1.5)
    unmeasured = [trial for trial in expensive.trials if not trial.record["measure"]]
    assert unmeasured
    assert "max_trial_cost=1.5 does not pay for a measurement" in unmeasured[0].record["why"]
    assert "at these values" in unmeasured[0].record["why"]
    assert all(entry.charged <= 1.5 for entry in expensive.ledger)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"cost": AffineCost({"y": 1.0})}, r"reads \['y'\], which the experiment does not have"),
        ({"cost": AffineCost({0: 1.0})}, r"reads the columns \[0\]: expected names"),
        ({"cost": AffineCost({"x": 1.0}, fixed=-0.5)}, "finite cost > 0"),
        ({"cost": lambda row: -1.0}, "cost gave -1.0 for .*: expected a finite number > 0"),
        ({"cost": "objective"}, "cost='objective' is the objective: expected another metric"),
        ({"budget": 1.4}, r"budget=1\.4.*initial_trials=3 .* which take at least 1\.5"),
        ({"max_trial_cost": 0.4}, r"max_trial_cost=0\.4 .*the cheapest measurement costs, 0\.5"),
    ],
)
def test_refuses_costs_of_the_settings(settings: dict[str, Any], message: str) -> None:
    """Before anything is spent."""
    with pytest.raises(InputError, match=message):
        simulation_of(**settings)


@pytest.mark.parametrize(("compare", "skips"), [("local_optima_only", 4), ("local_optima", 0)])
def test_a_single_optimum_is_measured_only_by_the_remedy(compare: Any, skips: int) -> None:
    """In the strategy as in the loop; the bound of a smooth model has one optimum."""
    rule = MeasurementRule(0.999, compare, joint=False)
    method = CostlyFeedback(forgetting=0.02, initial_trials=3, rule=rule, beta=0.1)
    model = FixedHyperparameters(lengthscale=5.0, noise_variance=1e-2)
    simulation = Simulation(method, FEEDBACK_SPACE, hyperparameters=model)
    skipped = 0
    for _ in range(7):
        decision = simulation.ask()
        assert isinstance(decision, Decision)
        skipped += "only local optimum" in decision.why and not decision.extra["measure"]
        value = float(str(decision.parameters["x"])) - 0.5
        simulation.tell(decision, Outcome(value if decision.extra["measure"] else None))
    assert skipped == skips
