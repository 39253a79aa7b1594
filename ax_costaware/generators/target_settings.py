"""What the settings of the methods share whose trials are averages of what is wanted.

A trial is a query; its outcome is the average of the objective over the points that the query
reaches. What is wanted is the best point. ``MethodSettings`` says what a settings object is. Costs
and the budget are in the user's own unit of cost.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeAlias, get_args

from ax.core.trial import Trial
from ax.exceptions.core import UserInputError
from torch import Tensor

from ax_costaware.generators.method_settings import (
    MethodSettings,
    check_bool,
    check_integer,
    checked_budget,
)
from ax_costaware.generators.surrogates import FixedHyperparameters
from ax_costaware.generators.target_parameters import TargetParameter, target_parameters
from ax_costaware.queries.conditionals import Conditional

Information: TypeAlias = Literal[
    "joint_entropy", "max_value_entropy", "max_value_entropy_noise_aware"
]
"""What a query is chosen to tell of: the best point and its value together, or the value only, that
in the form that was published, or with an account of the noise."""

INFORMATION: tuple[str, ...] = get_args(Information)


@dataclass(frozen=True, kw_only=True)
class TargetSettings(MethodSettings):
    """What all strategies have in common whose trials are averages.

    Raises:
        UserInputError: On construction, when a field has a value that the method cannot use.
    """

    method: ClassVar[str] = "indirect_query_strategy or ax_costaware.resolution_tree_strategy"

    target_parameters: tuple[TargetParameter, ...]
    """The parameters of the points, among which the best one is wanted."""

    budget: float | None = None
    """What the experiment may cost in total; None for no limit."""

    acquisition: Information = "max_value_entropy"
    """What a query is chosen to tell of."""

    initial_trials: int = 5
    """Number of initial trials before the model decides."""

    charge_initial: bool = True
    """Whether initial trials are paid from the budget."""

    hyperparameters: FixedHyperparameters | None = None
    """Hyperparameters of the model of the objective over the points; None: fitted."""

    seed: int = 0
    """Seed of everything random; a decision draws from (seed, trial index)."""

    num_samples: int = 32
    """Sampled optima over which the information is averaged."""

    num_restarts: int | None = None
    """Local searches for the query; None for the method's default."""

    raw_samples: int | None = None
    """Queries from the best of which these start; None for the method's default."""

    def __post_init__(self) -> None:
        set_field = object.__setattr__
        set_field(self, "target_parameters", target_parameters(self.target_parameters))
        set_field(self, "budget", checked_budget(self.budget))
        if self.acquisition not in INFORMATION:
            raise UserInputError(
                f"acquisition={self.acquisition!r}: expected one of {list(INFORMATION)}."
            )
        for name, least in (("seed", 0), ("initial_trials", 0), ("num_samples", 1)):
            check_integer(name, getattr(self, name), least)
        for name in ("num_restarts", "raw_samples"):
            if getattr(self, name) is not None:
                check_integer(name, getattr(self, name), 1)
        check_bool("charge_initial", self.charge_initial)
        if not isinstance(self.hyperparameters, FixedHyperparameters | None):
            raise UserInputError(
                f"hyperparameters={self.hyperparameters!r}: expected FixedHyperparameters, or None "
                "for fitted ones."
            )
        lengthscale = None if self.hyperparameters is None else self.hyperparameters.lengthscale
        if isinstance(lengthscale, tuple) and len(lengthscale) != len(self.target_parameters):
            raise UserInputError(
                f"hyperparameters: lengthscale={lengthscale!r} has {len(lengthscale)} numbers: "
                f"expected one, or one for each of the {len(self.target_parameters)} target "
                "parameters."
            )

    @property
    def target_names(self) -> tuple[str, ...]:
        """Names of the parameters of the points, in the order of the model's columns."""
        return tuple(parameter.name for parameter in self.target_parameters)

    @property
    def target_bounds(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Bounds of the model's columns."""
        parameters = self.target_parameters
        return tuple(p.lower for p in parameters), tuple(p.upper for p in parameters)

    @property
    def cost_metric(self) -> None:
        """None: what a query costs is declared."""
        return None

    def control_set_of(self, trial: Trial) -> None:
        """None: a trial controls every parameter of the query."""
        return None

    def declared_cost(self, trial: Trial) -> float | None:
        """What a trial costs.

        Raises:
            UserInputError: If the settings give no finite number > 0 for it.
        """
        return None if trial.arm is None else self.cost_at(trial.arm.parameters)

    @abstractmethod
    def query_names(self, parameters: Iterable[str]) -> tuple[str, ...]:
        """The parameters of the query in the order of the law's query columns.

        Args:
            parameters: Names of the experiment's parameters, in its order.
        """

    @abstractmethod
    def cost_at(self, parameters: Mapping[str, Any]) -> float:
        """What a query costs, by its parameters in raw units.

        Raises:
            UserInputError: If that is no finite number > 0.
        """

    @property
    @abstractmethod
    def law(self) -> Conditional:
        """The law of a point given a query, on the points that there are."""

    @property
    @abstractmethod
    def noise(self) -> Callable[[Tensor], Tensor] | None:
        """Variance of the observation noise at queries ``n x p`` in raw units; None: fitted."""
