"""What is refused by the arguments of costly feedback alone; and what the rest means."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import pytest
from botorch.models import SingleTaskGP

from ax_costaware.core.model import FixedHyperparameters, ModelOptions
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
from ax_costaware.space.parameters import Range
from ax_costaware.space.space import Space

OWN = ModelOptions("own", TimeVaryingGP, {"forgetting": 0.1})


@dataclass(frozen=True)
class RivalsOfItsOwn(FeedbackRule):
    """A user's rule that wants rivals of a kind that there is not."""

    compare: Any = "optima"

    def decide(self, prospect: Prospect) -> MeasurementChoice:
        return MeasurementChoice(True, "always")


BAD: dict[str, tuple[Any, ...]] = {
    "rule": (0.9, MeasurementRule, RivalsOfItsOwn()),
    "beta": (-1.0, "log"),
    "cost": (0, math.nan, "", SwitchingCost({"x": 1.0}, 1.0)),
    "budget": (4.9,),
    "time": ("", 3),
    "forgetting": (0.0, 1, math.nan),
}


@pytest.mark.parametrize(("name", "value"), [(n, x) for n, values in BAD.items() for x in values])
def test_bad_arguments(name: str, value: Any) -> None:
    with pytest.raises(InputError, match=f"{name}="):
        CostlyFeedback(**{name: value})


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"cost": "hours", "time": "hours"}, "time='hours' and cost='hours'"),
        ({"cost": "hours", "cost_model": "cubic"}, "cost_model='cubic'"),
        ({"budget": 0.5, "initial_trials": 0}, "budget=0.5"),
        ({"rule": MixedRule(RivalsOfItsOwn(None), 0.1, 0.5), "cost": 0}, "cost=0"),
    ],
)
def test_arguments_that_do_not_fit_together(arguments: dict[str, Any], name: str) -> None:
    with pytest.raises(InputError, match=name):
        CostlyFeedback(**arguments)


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
            "surrogate_spec .*hyperparameters. has the model class .*SingleTaskGP",
        ),
        (None, ModelOptions("none", None), "model class None"),
        (0.2, OWN, "forgetting=0.2, and surrogate_spec .*hyperparameters. has"),
    ],
)
def test_bad_models(forgetting: float | None, given: Any, message: str) -> None:
    """A model has to know the time, and the forgetting rate in one place."""
    with pytest.raises(InputError, match=message):
        CostlyFeedback(forgetting=forgetting).model(given)


def test_beta_grows_with_the_trials() -> None:
    """The schedule counts trials from one; a number holds."""
    method = CostlyFeedback(beta=LogarithmicBeta(0.5, 3.0))
    assert [method.beta_at(i) for i in (0, 9)] == [0.5 * math.log(3), 0.5 * math.log(30)]
    assert [CostlyFeedback(beta=b).beta_at(9) for b in (2.0, 0.0)] == [2.0, 0.0]


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
        value = -((float(str(decision.parameters["x"])) - peak) ** 2)
        simulation.tell(decision, Outcome(value if decision.extra["measure"] else None))
    return simulation


def test_what_cannot_be_paid_at_the_bound_is_not_measured_there() -> None:
    """The trial is at the best mean, and measured where that can be paid; and why is said."""
    simulation = run_of(5, 0.1, beta=4.0)
    decision = simulation.ask()
    assert decision.expected_cost is not None
    assert float(str(decision.parameters["x"])) > 0.4, "the bound is largest where nothing is known"
    capped = replace(simulation.method, max_trial_cost=1.5)
    later = Simulation(
        capped,
        FEEDBACK_SPACE,
        hyperparameters=FixedHyperparameters(lengthscale=0.2, noise_variance=1e-3),
        trials=list(simulation.trials),
    ).ask()
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
        ({"cost": AffineCost({0: 1.0})}, r"reads the columns \[0\]"),
        ({"cost": AffineCost({"x": 1.0}, fixed=-0.5)}, "finite cost > 0"),
        ({"cost": lambda row: -1.0}, "cost gave -1.0 for"),
        ({"cost": "objective"}, "cost='objective' is the objective"),
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
        skipped += "only local optimum" in decision.why and not decision.extra["measure"]
        value = float(str(decision.parameters["x"])) - 0.5
        simulation.tell(decision, Outcome(value if decision.extra["measure"] else None))
    assert skipped == skips
