"""Cost-aware methods: expected improvement per cost, and the Pandora's Box Gittins index.

``CostAware`` chooses the trial with the largest expected improvement per unit of cost; it is the
default, since it leaves users better off over the panel of ``benchmarks/panel.py``. ``Gittins`` is
the method of Xie et al. 2024, "Cost-aware Bayesian Optimization via the Pandora's Box Gittins
Index" (NeurIPS): the index, its decaying price (PBGI-D), and a quasi-random design that is blind to
costs. Both take its stopping rules. Costs and the budget are in the user's own unit of cost;
``lmbda`` is in raw units of the objective per unit of cost.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import Any, ClassVar, Self, TypeAlias

from ax_costaware.argument_checks import boolean, check_fields, instance_of, one_of
from ax_costaware.core.model import FixedHyperparameters, ModelOptions
from ax_costaware.core.problem import Decision, Problem, Stop
from ax_costaware.exceptions import InputError
from ax_costaware.methods.gittins.assessment import assess
from ax_costaware.methods.gittins.rules import GittinsDecay, GittinsStop, ImprovementPerCostStop
from ax_costaware.methods.gittins.search import GITTINS, PER_COST
from ax_costaware.methods.priced import PricedMethod
from ax_costaware.models.log_normal_cost import CostKind
from ax_costaware.models.matern_gp import MaternGP
from ax_costaware.space.parameters import Row

ACQUISITIONS = ("log_nei_per_cost", "log_ei_per_cost", "log_ei_cost_cooling")
"""Values of ``acquisition``: log EI per cost over a noisy incumbent (noisy EI) if noise is found;
log EI per cost over the best posterior mean; and the same with a power of the cost that falls from
1 to 0 with the budget (cost cooling)."""

KERNELS = ("matern", "squared_exponential")
"""Values of ``kernel``: Matern 5/2, and what BoTorch and Ax have by default."""

StopRule: TypeAlias = GittinsStop | ImprovementPerCostStop


@dataclass(frozen=True)
class CostAware(PricedMethod):
    """Expected improvement per unit of cost, with an initial design that knows costs.

    Raises:
        InputError: On construction, when a field has a value that the method cannot use.
    """

    factory: ClassVar[str] = "cost_aware_strategy"

    label: ClassVar[str] = "CostAware"

    acquisitions: ClassVar[tuple[str, ...]] = ACQUISITIONS
    """Values that ``acquisition`` may have."""

    stop: bool | StopRule | None = None
    """When to stop: by a rule; never; (True) by ``GittinsStop``, unless lambda decays; or (None) by
    the rule that fits what is maximised, if ``lmbda`` is given."""

    acquisition: str = "log_nei_per_cost"
    """What is maximised: one of ``ACQUISITIONS``."""

    initialize_with_center: bool = True
    """Whether the first trial is the center of the search space, as Ax's is."""

    kernel: str = "matern"
    """Kernel of the objective's model where hyperparameters are fitted: one of ``KERNELS``."""

    def __post_init__(self) -> None:
        check_fields(self, initialize_with_center=boolean)
        one_of(self.acquisition, "acquisition", self.acquisitions)
        one_of(self.kernel, "kernel", KERNELS)
        super().__post_init__()
        self._check_stop()
        if self.acquisition == "log_ei_cost_cooling" and self.budget is None:
            raise InputError(
                "acquisition='log_ei_cost_cooling' with budget=None: the exponent of the cost is "
                "the share of the budget that is left, so a budget is needed."
            )

    @property
    def decay(self) -> GittinsDecay | None:
        """How lambda falls over the run, where neither ``lmbda`` nor a budget is given."""
        return GittinsDecay() if self.lmbda is None and self.budget is None else None

    def priced_anew(self, **fields: Any) -> Self:
        """Return the method with other fields, which say what a unit of cost is worth."""
        return replace(self, **fields)

    @property
    def lambda_source(self) -> str:
        """Where lambda comes from: ``"given"``, ``"decay"`` or ``"budget"``."""
        if self.lmbda is not None:
            return "given"
        return "budget" if self.decay is None else "decay"

    @property
    def rule(self) -> StopRule | None:
        """The stopping rule; None if the strategy never stops before the budget does."""
        if isinstance(self.stop, StopRule):
            return self.stop
        if self.decay is not None or self.stop is False:
            return None
        if self.stop is None and self.lmbda is None:
            return None
        if self.stop is None and self.acquisition in PER_COST:
            return ImprovementPerCostStop()
        return GittinsStop()

    def model(self, given: FixedHyperparameters | ModelOptions | None = None) -> ModelOptions:
        """See ``Method``; the kernel is that which was asked for."""
        if given is None and self.kernel == "matern":
            return ModelOptions("MaternGP", MaternGP)
        return super().model(given)

    def initial(self, problem: Problem) -> Decision | Stop:
        """The next trial of the initial design; the first is the center of the search space."""
        center, begun = _center(problem), problem.trials or problem.earlier_in_batch
        if self.initialize_with_center and not begun and problem.space.meets(center):
            drawn: Iterator[Row] = chain([center], iter(problem.draw, None))
            problem = replace(problem, draw=partial(next, drawn))
        return super().initial(problem)

    def origin_of(self, problem: Problem, row: Row) -> str:
        """The center of the search space, or the quasi-random design."""
        if row == _center(problem):
            return "it is the center of the search space"
        return super().origin_of(problem, row)

    def decide(self, problem: Problem) -> Decision | Stop:
        """The trial that is most worth its cost; or that none is, or none can be paid."""
        return assess(self, problem, self.rule).answer

    def _check_stop(self) -> None:
        expected = "None, True, False, GittinsStop or ImprovementPerCostStop"
        instance_of(self.stop, "stop", bool | StopRule | None, expected)
        if self.decay is not None and isinstance(self.stop, StopRule) and self.stop.lmbda is None:
            raise InputError(
                f"stop={self.stop!r} has no lmbda, and lambda decays here: give the rule the rate "
                "at which cost is exchanged for the objective, as in "
                f"{type(self.stop).__name__}(lmbda=...)."
            )


@dataclass(frozen=True)
class Gittins(CostAware):
    """The Pandora's Box Gittins index (PBGI), and with a decaying lambda PBGI-D.

    The index, the model and the design are those of the paper: a Matern 5/2 kernel, outcomes as
    they are, and quasi-random initial trials that are blind to costs.

    Raises:
        InputError: On construction, when a field has a value that the method cannot use.
    """

    factory: ClassVar[str] = "gittins_strategy"

    label: ClassVar[str] = "Gittins"

    acquisitions: ClassVar[tuple[str, ...]] = (GITTINS,)

    acquisition: ClassVar[str] = GITTINS  # type: ignore[misc]

    decay: GittinsDecay | None = None
    """How lambda falls over the run; its numbers are in standard deviations of the outcomes per
    mean cost of a trial. Set where neither ``lmbda`` nor a budget is given."""

    initialize_with_center: bool = False
    """Whether the first trial is the center of the search space."""

    winsorize: bool = field(default=False, kw_only=True)
    """Whether a fitted model sees bad outliers of the objective as less bad ones."""

    cost_model: CostKind = field(default="gp", kw_only=True)
    """Model of a cost that is learned: one of ``COST_MODELS``."""

    initial_share: float | None = field(default=None, kw_only=True)
    """Share of the budget that the initial design keeps to; None: it is blind to costs."""

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

    def priced_anew(self, **fields: Any) -> Self:
        """See ``CostAware``; the decay ends."""
        return replace(self, decay=None, **fields)


def _center(problem: Problem) -> Row:
    """The center of the search space, but for what the caller fixed."""
    return problem.space.ordered({**problem.space.center, **problem.fixed})
