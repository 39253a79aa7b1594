"""Cost-aware methods: expected improvement per cost, and the Pandora's Box Gittins index.

``CostAware`` chooses the trial with the largest expected improvement per unit of cost; it is the
default, since it leaves users better off over the panel of ``benchmarks/panel.py``. ``Gittins`` is
the method of Xie et al. 2024, "Cost-aware Bayesian Optimization via the Pandora's Box Gittins
Index" (NeurIPS): the index, its decaying price (PBGI-D), and a quasi-random design that ignores
costs. Both accept its stopping rules. Costs and the budget are in the user's own unit of cost;
``lmbda`` is in raw units of the objective per unit of cost, or a ``StandardizedPrice``.

Modules: ``assessment`` makes a decision, ``search`` maximizes over affordable points, ``prices``
finds lambda, ``rules`` has the stopping rules and the decay on plain numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain
from typing import Any, ClassVar, Literal, Self, TypeAlias

from ax_costaware.argument_checks import (
    boolean,
    check_fields,
    distinct,
    instance_of,
    nonempty_string,
    one_of,
    optional,
    sequence_of,
    set_fields,
    share,
)
from ax_costaware.core.further_budgets import problem_in
from ax_costaware.core.model import ARGUMENT, GivenModel, ModelOptions
from ax_costaware.core.problem import Best, Decision, Problem, Stop
from ax_costaware.core.traits import Traits
from ax_costaware.costs import Budget
from ax_costaware.exceptions import InputError
from ax_costaware.methods.cost_aware.assessment import assess
from ax_costaware.methods.cost_aware.budgets import (
    budgets_by_name,
    check_budgets,
    checked_budgets,
)
from ax_costaware.methods.cost_aware.plates import Plan, decide_in_batch
from ax_costaware.methods.cost_aware.repeats import (
    check_candidates,
    check_repeats,
    distinct_inputs,
    few_repeats,
    repeats_key,
    repeats_options,
)
from ax_costaware.methods.cost_aware.rules import GittinsDecay, GittinsStop, ImprovementPerCostStop
from ax_costaware.methods.cost_aware.search import EI_PER_COST, GITTINS, PAREGO
from ax_costaware.methods.cost_aware.several import (
    check_price,
    check_several,
    decide_on_front,
    has_several,
    recommend_front,
)
from ax_costaware.methods.costed import CostedMethod
from ax_costaware.methods.priced import PricedCosts, PricedMethod, StandardizedPrice
from ax_costaware.models import MaternGP, RepeatsGP
from ax_costaware.models.log_normal_cost import CostKind
from ax_costaware.space.parameters import Row

ACQUISITIONS = ("log_nei_per_cost", "log_ei_per_cost", "log_ei_cost_cooling")
"""Values of ``acquisition`` for any number of objectives."""

KERNELS = ("matern", "squared_exponential")
"""Values of ``kernel``."""

StopRule: TypeAlias = GittinsStop | ImprovementPerCostStop


@dataclass(frozen=True, kw_only=True)
class CostAware(PricedMethod):
    """Expected improvement per unit of cost, with a cost-aware initial design.

    A decision is made by ``assess``: the trial that maximizes ``acquisition`` among those that the
    budget pays for, unless ``stop_rule`` says that it is not worth its cost at the price lambda.

    Raises:
        InputError: On construction, when a field has a value that the method cannot use.
    """

    factory: ClassVar[str] = "cost_aware_strategy"

    acquisitions: ClassVar[tuple[str, ...]] = (*ACQUISITIONS, PAREGO)
    """Values that ``acquisition`` may have."""

    lmbda: float | StandardizedPrice | None = None
    """Value of one unit of cost, in units of the objective: the improvement that is worth one unit;
    or a ``StandardizedPrice``. None: lambda is solved from the budget, or decays without one."""

    stop: bool | StopRule | None = None
    """Stopping rule before the budget is used up.

    - None: stop when no trial is worth its cost at ``lmbda``, by ``ImprovementPerCostStop`` for EI
      per cost and else by ``GittinsStop``; without ``lmbda``, never.
    - True: ``GittinsStop``, also at a lambda that is solved from the budget: stop when the best
      posterior mean at an evaluated point is at least the largest index. Never if lambda decays.
    - False: never.
    - A rule, ``GittinsStop`` or ``ImprovementPerCostStop``, with a ``lmbda`` of its own or the one
      in force.
    """

    acquisition: str = "log_nei_per_cost"
    """Acquisition function.

    - ``"log_nei_per_cost"``: expected improvement per unit of cost, over a noisy incumbent (noisy
      EI) if an exact Gaussian process has found noise, or has found hardly any and EI would repeat
      a trial, and no parameter is fixed; else over the best posterior mean.
    - ``"log_ei_per_cost"``: the same, always over the best posterior mean.
    - ``"log_ei_cost_cooling"``: the same, with an exponent of the cost that is the share of the
      budget that is left; with ``repeats`` or ``confirm`` that of the knowledge gradient.
    - ``"parego_per_cost"``, for several objectives: expected improvement per unit of cost of a
      scalarization with random weights.

    With several objectives the improvement is that of the front's hypervolume.
    """

    front: Literal["cost"] | None = None
    """Additional objective: ``"cost"`` for the cost of a trial, which is minimized. None: the
    objectives are those of the experiment."""

    initialize_with_center: bool = True
    """The first trial is the center of the search space, as in Ax, if that fits the share of the
    budget."""

    kernel: str = "matern"
    """Kernel of the objective's model, if that is fitted: ``"matern"`` (``MaternGP``), or
    ``"squared_exponential"``, which is Ax's default."""

    further_budgets: Sequence[Budget] = ()
    """Budgets in other units, each with its own cost. No trial is chosen that breaks one of them,
    and trials are compared by the cost that is largest relative to what is left of its budget. They
    may also be given together, with the cost and the budget of each unit by name, the first of
    which is that of the account: ``cost={"dollars": AffineCost(...), "hours": "hours"}`` and
    ``budget={"dollars": 500, "hours": 40}``. A learned cost in a further unit is reported as a
    metric of the experiment."""

    unit: str | None = None
    """Name of the unit of ``cost`` and ``budget``, if they are given by name."""

    shared: Sequence[str] = ()
    """Parameters that all trials of a batch set to the same value, such as the temperature of one
    oven. The trials of one request are a batch: ``client.get_next_trials(max_trials=8)``. The value
    is chosen for what the trials of the batch are worth together, and is free between batches."""

    fill: bool = False
    """Return as many trials as are asked for, as far as the budget pays for them. False: with a
    ``BatchCost`` a batch has the trials that are worth their cost, and a batch ends before a trial
    that repeats one of it."""

    repeats: str | None = None
    """Integer parameter that counts the repeats of a trial, such as ``"folds"``. A trial reports
    the mean of its repeats: the objective does not depend on their number ``n``, the noise variance
    is ``sigma^2 / n``, and the cost may depend on it. Inputs and repeats are chosen together, by
    the expected gain in the value of the final recommendation per unit of cost (knowledge
    gradient). A trial may be at inputs that were tried; results are pooled. None: trials are
    measured once."""

    confirm: float | None = None
    """Last share of the budget, in which the best few inputs are measured again where that is
    expected to help. Trials are then chosen by the knowledge gradient per cost."""

    def __post_init__(self) -> None:
        if isinstance(self.cost, Mapping) or isinstance(self.budget, Mapping):
            set_fields(self, **budgets_by_name(self))
        check_fields(
            self,
            further_budgets=checked_budgets,
            unit=optional(nonempty_string),
            initialize_with_center=boolean,
            fill=boolean,
            shared=_names,
            repeats=optional(nonempty_string),
            confirm=optional(share),
        )
        one_of(self.acquisition, "acquisition", self.acquisitions)
        one_of(self.kernel, "kernel", KERNELS)
        one_of(self.front, "front", (None, "cost"))
        super().__post_init__()
        check_price(self)
        check_budgets(self)
        self._check_stop()
        self._check_repeats()
        if self.cools and self.budget is None:
            raise InputError(
                "acquisition='log_ei_cost_cooling' with budget=None: the exponent of the cost is "
                "the share of the budget that is left, so a budget is needed."
            )

    @cached_property
    def _further(self) -> dict[str, CostAware]:
        """Methods with a further cost and its budget alone, by the name of the unit."""
        alone: dict[str, Any] = {"max_trial_cost": None, "further_budgets": (), "confirm": None}
        return {
            each.unit: replace(self, cost=each.cost, budget=each.total, unit=each.unit, **alone)
            for each in self.further_budgets
        }

    @property
    def trial_costs(self) -> PricedCosts:
        """Costs of trials by ``cost``, and by ``further_budgets``."""
        return replace(super().trial_costs, unit=self.unit, further=self._further)

    @property
    def traits(self) -> Traits:
        """The label is the name of the class, and pending trials may be repeated with repeats."""
        name, may_repeat = self.repeats, self.repeats is not None
        return replace(
            super().traits,
            label="CostAware",
            repeats=name,
            may_repeat=may_repeat,
            reads=tuple(m for o in self._further.values() if (m := o.trial_costs.metric)),
            shared=tuple(self.shared),
            fills_batches=self.fill,
            refuses_objectives=None,
            refuses_hierarchy=None,
        )

    @property
    def decay(self) -> GittinsDecay | None:
        """Decay of lambda over the run if neither ``lmbda`` nor a budget is given; else None."""
        return GittinsDecay() if self.lmbda is None and self.budget is None else None

    def with_lambda_source(self, **fields: Any) -> Self:
        """Return the method with another source of lambda, such as ``budget`` or ``lmbda``.

        A given ``lmbda`` also replaces the price of a stopping rule.
        """
        if "lmbda" in fields and isinstance(self.stop, StopRule):
            fields["stop"] = replace(self.stop, lmbda=None)
        return replace(self, **fields)

    @property
    def lambda_source(self) -> str:
        """Source of lambda: ``"given"``, ``"decay"`` or ``"budget"``."""
        if self.lmbda is not None:
            return "given"
        return "budget" if self.decay is None else "decay"

    @property
    def stop_rule(self) -> StopRule | None:
        """The stopping rule; None if the strategy never stops before the budget does."""
        if isinstance(self.stop, StopRule):
            return self.stop
        if self.decay is not None or self.stop is False:
            return None
        if self.stop is None and self.lmbda is None:
            return None
        if self.stop is None and self.acquisition in EI_PER_COST:
            return ImprovementPerCostStop()
        return GittinsStop()

    @property
    def weighs_noise(self) -> bool:
        """True if trials are chosen by the knowledge gradient: with repeats, or to confirm."""
        return self.repeats is not None or self.confirm is not None

    @property
    def cools(self) -> bool:
        """True if the exponent of the cost is the share of the budget that is left."""
        return self.acquisition == "log_ei_cost_cooling"

    def check(self, problem: Problem) -> None:
        """Refuse parameters that cannot count repeats, and settings for other objectives."""
        if self.repeats is not None:
            check_repeats(self.repeats, problem)
        for name in self.shared:
            one_of(name, "shared", problem.space.columns)
            if name in problem.space.conditions:
                raise InputError(
                    f"shared has {name!r}, which not every trial has: expected a parameter that is "
                    "always active."
                )
        super().check(problem)
        for unit, other in self._further.items():
            metric = other.trial_costs.metric
            if metric is not None and metric not in problem.metrics:
                raise InputError(
                    f"further_budgets: the cost in {unit} is the metric {metric!r}, which the "
                    "experiment does not have: add it with "
                    f"client.configure_tracking_metrics([{metric!r}])."
                )
            CostedMethod.check(other, problem_in(problem, unit, other))
        check_several(self, problem)

    def model(
        self, given: GivenModel = None, problem: Problem | None = None, metric: str | None = None
    ) -> ModelOptions:
        """Return the model's class and options, with the kernel ``kernel`` if it is fitted.

        With repeats, the noise falls with their number.
        """
        if self.repeats is not None and given is not None:
            raise InputError(
                f"{ARGUMENT}={given!r} with repeats={self.repeats!r}: the model of trials with "
                "repeats is the method's own; expected None."
            )
        if self.repeats is not None and problem is not None:
            options = repeats_options(self.repeats, problem, metric)
            key = repeats_key(options)
            options |= {"bounds": problem.space.bounds, "kernel": self.kernel}
            return ModelOptions("RepeatsGP", RepeatsGP, options, normalizes=False, key=key)
        if given is None and self.kernel == "matern":
            return ModelOptions("MaternGP", MaternGP)
        return super().model(given, problem, metric)

    def initial(self, problem: Problem) -> Decision | Stop | None:
        """Return the next trial of the initial design; the first may be the center of the space."""
        center, begun = problem.center, problem.trials or problem.earlier_in_batch
        drawn: Iterator[Row] = iter(problem.draw, None)
        if self.initialize_with_center and not begun and problem.space.meets(center):
            drawn = chain([center], drawn)
        if (name := self.repeats) is not None:
            drawn = (few for row in drawn for few in few_repeats(name, problem, row))
        return super().initial(replace(problem, draw=partial(next, drawn)))

    def decide(self, problem: Problem) -> Decision | Stop:
        """Return the affordable trial of the largest acquisition value, or the reason to stop."""
        return decide_in_batch(self, problem, self._next)

    def _next(self, problem: Problem, plan: Plan | None) -> Decision | Stop:
        """Return the next trial of a batch, whose plan is known for its first trial."""
        if has_several(self, problem):
            return decide_on_front(self, problem)
        assessment = assess(self, problem, self.stop_rule)
        decision, compared = assessment.decision, assessment.index_and_price
        if decision is not None and assessment.stop and compared is not None:
            # The rule judges a trial, but the batch is worth its cost, or has to be filled.
            joins = self.fill and problem.earlier_in_batch
            if joins or (plan is not None and plan.is_worth(compared[1])):
                return decision
        return assessment.decision_or_stop

    def recommend(self, problem: Problem) -> list[Best]:
        """Return distinct inputs, best first: with several objectives the front.

        Inputs with several numbers of repeats are returned once.
        """
        if has_several(self, problem):
            return recommend_front(self, problem)
        return distinct_inputs(self.repeats, super().recommend(problem))

    def _check_repeats(self) -> None:
        """Refuse settings that do not go with repeats or a confirmation."""
        given = [
            f"{n}={v!r}" for n in ("repeats", "confirm") if (v := getattr(self, n)) is not None
        ]
        if given and not (self.acquisition == "log_nei_per_cost" or self.cools):
            raise InputError(
                f"{given[0]} with acquisition={self.acquisition!r}: expected the default or "
                "'log_ei_cost_cooling', since trials are chosen by the knowledge gradient per cost."
            )
        if given and self.cools and self.stop_rule is not None:
            raise InputError(
                f"{given[0]} with acquisition={self.acquisition!r}: expected no stopping rule, "
                "which compares the knowledge gradient per cost with a price."
            )
        if given and isinstance(self.stop_rule, GittinsStop):
            raise InputError(
                f"{given[0]} with stop={self.stop!r}: expected ImprovementPerCostStop, since the "
                "Gittins index assumes that a trial shows its value without noise."
            )
        check_candidates(self.repeats, self.candidates)
        if self.repeats is not None and self.repeats in self.shared:
            raise InputError(
                f"{given[0]} is in shared={self.shared!r}: expected other parameters, since each "
                "trial has its own number of repeats."
            )
        if self.confirm is not None and self.budget is None:
            raise InputError(f"confirm={self.confirm!r} with budget=None: a budget is needed.")

    def _check_stop(self) -> None:
        expected = "None, True, False, GittinsStop or ImprovementPerCostStop"
        instance_of(self.stop, "stop", bool | StopRule | None, expected)
        if self.decay is not None and isinstance(self.stop, StopRule) and self.stop.lmbda is None:
            raise InputError(
                f"stop={self.stop!r} has no lmbda, and lambda decays here: give the rule the rate "
                "at which cost is exchanged for the objective, as in "
                f"{type(self.stop).__name__}(lmbda=...)."
            )


def _names(names: Any, name: str) -> tuple[str, ...]:
    """Return distinct names of parameters as a tuple."""
    expected = "a sequence of names of parameters, such as ['temperature']"
    found = sequence_of(names, name, expected)
    distinct([nonempty_string(each, name, expected) for each in found], name, expected)
    return found


@dataclass(frozen=True, kw_only=True)
class Gittins(CostAware):
    """The Pandora's Box Gittins index (PBGI), and with a decaying lambda PBGI-D.

    The index of a point solves ``EI(x; g) = lmbda * c(x)`` for ``g``. The index, the model and the
    design are those of the paper: a Matern 5/2 kernel, outcomes without winsorizing, and
    quasi-random initial trials that ignore costs.

    Raises:
        InputError: On construction, when a field has a value that the method cannot use.
    """

    factory: ClassVar[str] = "gittins_strategy"

    acquisitions: ClassVar[tuple[str, ...]] = (GITTINS,)

    acquisition: ClassVar[str] = GITTINS  # type: ignore[misc]

    repeats: ClassVar[None] = None  # type: ignore[misc]

    confirm: ClassVar[None] = None  # type: ignore[misc]

    further_budgets: ClassVar[tuple[()]] = ()  # type: ignore[misc]

    unit: ClassVar[None] = None  # type: ignore[misc]

    decay: GittinsDecay | None = None
    """Decay of lambda when no trial is worth its cost, not together with ``lmbda``.
    ``GittinsDecay()`` if neither ``lmbda`` nor a budget is given."""

    # The defaults of the paper.

    initialize_with_center: bool = False

    winsorize: bool = False

    cost_model: CostKind = "gp"

    initial_share: float | None = None

    def __post_init__(self) -> None:
        instance_of(self.decay, "decay", GittinsDecay | None, "a GittinsDecay, or None")
        if self.decay is not None and self.lmbda is not None:
            raise InputError(
                f"lmbda={self.lmbda!r} and decay={self.decay!r} are both given: lambda is either "
                "fixed or decays."
            )
        if self.lmbda is None and self.decay is None and self.budget is None:
            object.__setattr__(self, "decay", GittinsDecay())
        super().__post_init__()

    @property
    def traits(self) -> Traits:
        """The label is the name of the class."""
        return replace(super().traits, label="Gittins")

    def with_lambda_source(self, **fields: Any) -> Self:
        """Return the method with another source of lambda, without the decay."""
        return super().with_lambda_source(decay=None, **fields)
