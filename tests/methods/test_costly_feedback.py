"""What is refused by the arguments of costly feedback alone; and what the rest means."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from botorch.models import SingleTaskGP

from ax_costaware.core.history import PastTrial
from ax_costaware.core.model import FixedHyperparameters, ModelOptions
from ax_costaware.core.problem import Decision, Problem
from ax_costaware.exceptions import InputError
from ax_costaware.methods.costly_feedback import CostlyFeedback
from ax_costaware.models import TimeVaryingGP
from ax_costaware.models.fixed_hyperparameters import FixedTimeVaryingGP
from ax_costaware.policies.beta import LogarithmicBeta
from ax_costaware.policies.query_rules import (
    FeedbackRule,
    MixedRule,
    Prospect,
    QueryDecision,
    QueryRule,
)
from ax_costaware.space.parameters import Range
from ax_costaware.space.space import Space

OWN = ModelOptions("own", TimeVaryingGP, {"forgetting": 0.1})


@dataclass(frozen=True)
class RivalsOfItsOwn(FeedbackRule):
    """A user's rule that wants rivals of a kind that there is not."""

    compare: Any = "optima"

    def decide(self, prospect: Prospect) -> QueryDecision:
        return QueryDecision(True, "always")


BAD_ARGUMENTS: list[tuple[dict[str, Any], str]] = [
    ({"rule": 0.9}, "rule=0.9: expected a rule such as QueryRule"),
    ({"rule": QueryRule}, "rule=.*QueryRule.*: expected"),
    (
        {"rule": RivalsOfItsOwn()},
        r"rule=RivalsOfItsOwn.*: compare='optima': expected one of \['correlation', 'local_optima'",
    ),
    ({"rule": MixedRule(RivalsOfItsOwn(None), 0.1, 0.5), "cost": 0}, "cost=0"),
    ({"beta": -1.0}, "beta=-1.0: expected a finite number >= 0"),
    ({"beta": "log"}, "beta='log': expected"),
    ({"cost": 0}, "cost=0: expected a finite number > 0"),
    ({"cost": math.nan}, "cost=nan: expected"),
    ({"cost": "hours"}, "cost='hours': expected"),
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
    # Who learns how fast things change has to look now and then.
    rule = method.settled([found]).rule
    assert isinstance(rule, QueryRule if options else MixedRule)
    assert CostlyFeedback(rule=QueryRule(0.5)).settled([found]).rule == QueryRule(0.5)
