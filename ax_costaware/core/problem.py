"""Inputs and results of one decision.

A ``Problem`` holds the search space, all trials, the pending ones, the fixed parameters, the fitted
model, an optimizer of acquisition functions, and a quasi-random design. Models see outcomes on an
``OutcomeScale``, where larger values are better. Decisions are recorded in the objective's own unit
and sign.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import torch
from botorch.acquisition.acquisition import AcquisitionFunction
from botorch.models.model import Model
from botorch.utils.sampling import manual_seed
from torch import Tensor

from ax_costaware.acquisition.feasibility import Feasibility, OutcomeConstraint
from ax_costaware.acquisition.optimize import Optimum
from ax_costaware.core.history import PastTrial
from ax_costaware.core.objectives import Objective
from ax_costaware.exceptions import unavailable
from ax_costaware.models.fantasies import fantasized
from ax_costaware.models.outcome_scale import OutcomeScale
from ax_costaware.models.posterior import FunctionalPosterior
from ax_costaware.space.finite_spaces import all_points, untried
from ax_costaware.space.parameters import Row, Value
from ax_costaware.space.space import Space

Pairs = Mapping[str, Mapping[str, Sequence[float | None]]]
"""Observed pairs of a point and its query: ``{"X": columns by name, "A": columns by name}``."""


class Maximize(Protocol):
    """Optimizer of acquisition functions over the search space."""

    def __call__(
        self,
        acquisition: AcquisitionFunction,
        options: Mapping[str, Any],
        held: Mapping[int, float] | None = None,
    ) -> Optimum[float]:
        """Return the best point of an acquisition function.

        Args:
            acquisition: The function, of points ``b x 1 x d``.
            options: ``num_restarts`` and ``raw_samples``; defaults apply where they are missing.
            held: Values of columns to hold besides those that the user fixes. They need a free
                real column, and no equality constraint.

        Raises:
            SpaceExhausted: If the space is finite, and every point of it was tried.
        """
        ...


class SpaceExhausted(Exception):
    """Raised if every point of the search space was tried; becomes a ``Stop`` with ``REASON``."""

    REASON = "every point of the search space has been evaluated"


_NUM_FANTASIES = 25
"""Fantasized observations of a known point, which leave a fifth of the noise: ``1 / sqrt(25)``."""


class Pending(NamedTuple):
    """A pending trial, or an earlier decision of the same batch."""

    trial_index: int | None
    """Index of the trial; None for a decision of the same batch."""

    parameters: dict[str, Value]
    """Its parameterization."""

    measure: bool = True
    """True if its outcome will be measured."""


@dataclass(frozen=True)
class Problem:
    """Inputs of one decision: space, trials, pending trials, fitted model, and optimizer."""

    space: Space
    """Search space, which encodes parameters as columns of the model."""

    trials: tuple[PastTrial, ...] = ()
    """All trials so far, by increasing index."""

    pending: tuple[Pending, ...] = ()
    """Pending trials, then earlier decisions of the same batch."""

    known: tuple[Pending, ...] = ()
    """Pending trials that the model takes as known, so that a decision does not repeat them."""

    fixed: Row = field(default_factory=dict)
    """Values of parameters that the caller fixes, or that were disabled."""

    disabled: Collection[str] = ()
    """Names of disabled parameters, whose values are fixed for all trials."""

    shared: Row = field(default_factory=dict)
    """Settings that the trial shares with earlier decisions of its batch. Other than ``fixed`` ones
    they say nothing of what is deployed."""

    batch_size: int | None = None
    """Number of trials that are asked for together, this one included; None without a request."""

    deployed_at: Row = field(default_factory=dict)
    """Known values of latent parameters at deployment, for a recommendation."""

    minimize: bool = False
    """True if smaller values of the objective are better."""

    objective: str = "objective"
    """Name of the objective."""

    objectives: tuple[Objective, ...] = ()
    """All objectives if there are several, the first of which is ``objective``; none for one."""

    weights: Mapping[str, float] = field(default_factory=dict)
    """Weights of objectives by name, for a recommendation; none for equal weights."""

    metrics: frozenset[str] = frozenset()
    """Names of all metrics of the experiment."""

    constraints: tuple[OutcomeConstraint, ...] = ()
    """Outcome constraints, one per metric."""

    num_attached: int = 0
    """Number of trials with data that the strategy did not generate. They count as initial."""

    repeats: str | None = None
    """Parameter that counts repeats, with which a trial may be at inputs that were tried; or
    None."""

    pairs: Pairs = field(default_factory=dict)
    """Pairs that were observed during the experiment."""

    fit: Callable[[], Model] = unavailable
    """Function that returns the model, fitted to the outcomes on their scale."""

    find_scale: Callable[[], OutcomeScale] = unavailable
    """Function that returns the scale of the outcomes."""

    prepare: Callable[[Problem], Problem] = unavailable
    """Function that gives a changed problem its model and optimizer, see ``Loop.prepared``."""

    maximize: Maximize = unavailable
    """Optimizer of acquisition functions."""

    draw: Callable[[], Row] = unavailable
    """Function that returns the next parameterization of the quasi-random design."""

    @cached_property
    def model(self) -> Model:
        """Fitted model, with ``known`` trials fantasized at the posterior mean."""
        return self._with_known(self.fit)

    @cached_property
    def models(self) -> list[Model]:
        """Model of each objective, as ``model``; none for a single objective."""
        return [self._with_known(each.fit) for each in self.objectives]

    def _with_known(self, fit: Callable[[], Model]) -> Model:
        # The first access may be inside torch.no_grad, where no model can be fitted.
        with torch.enable_grad():
            model = fit()
        if not self.known:
            return model
        points = self.space.encode([o.parameters for o in self.known])
        return fantasized(model, points.repeat(_NUM_FANTASIES, 1))

    @cached_property
    def scale(self) -> OutcomeScale:
        """Scale on which the model sees outcomes: of order one, and larger is better."""
        return self.find_scale()

    @cached_property
    def posterior(self) -> FunctionalPosterior:
        """Posterior of the model, without pending trials."""
        return FunctionalPosterior.of(self.model)

    @cached_property
    def feasibility(self) -> Feasibility[FunctionalPosterior] | None:
        """Probability of satisfying all outcome constraints; None without constraints."""
        if not self.constraints:
            return None
        return Feasibility.of(self.constraints, FunctionalPosterior.of)

    def drawn(self, most: int) -> Iterator[Row]:
        """Yield the next points of the quasi-random design, at most ``most`` of them.

        Failed points are skipped. With real parameters, all points of earlier trials are: the
        design of a second strategy in one experiment starts from the same sequence.
        """
        skipped = [trial.parameters for trial in (self.trials if self._free else self.failed)]
        rows = (self.draw() for _ in range(most))
        yield from (row for row in rows if row not in skipped)

    def as_fixed(self, row: Row) -> dict[str, Value]:
        """Return a parameterization with the fixed values, completed by equality constraints."""
        found = {**row, **self.fixed}
        if self.fixed and self.space.elimination is not None:
            (found,) = self.space.decode(self.space.complete(self.space.encode([found])))
        return self.space.pinned(found)

    @property
    def center(self) -> dict[str, Value]:
        """Center of the search space, with the parameters that the caller fixed."""
        return self.space.pinned(self.space.ordered({**self.space.center, **self.fixed}))

    def is_deployable(self, row: Row) -> bool:
        """True if inputs are in the search space, once the fixed values are set.

        Trials outside of it are charged, and the model is fitted to them, but they are not
        deployed. They are past data, were run before a change of bounds or constraints, or have
        realized inputs that nobody planned.
        """
        row, determined = {**row, **self.fixed}, self.space.elimination
        if self.fixed and determined is not None:
            completed = self.as_fixed(row)
            row |= {
                name: completed[name]
                for name, column in self.space.columns.items()
                if column.indices[0] in determined.columns
            }
        return self.space.admits(row)

    @property
    def earlier_in_batch(self) -> list[dict[str, Value]]:
        """Parameterizations of earlier decisions of the same batch, which are not yet trials."""
        return [o.parameters for o in self.pending if o.trial_index is None]

    @property
    def next_index(self) -> int:
        """Index of the next trial."""
        return len(self.trials) + len(self.earlier_in_batch)

    @property
    def goal(self) -> str:
        """Maximized quantity, in Ax's notation: ``"-loss"`` to minimize ``"loss"``."""
        if self.objectives:
            return ", ".join(map(str, self.objectives))
        return f"{'-' if self.minimize else ''}{self.objective}"

    @property
    def observed(self) -> list[PastTrial]:
        """Trials that the model is fitted to."""
        return [trial for trial in self.trials if trial.is_observed]

    @property
    def measured(self) -> list[PastTrial]:
        """Observed trials with a value of every objective and constrained outcome."""
        return [trial for trial in self.observed if self.learned <= trial.metrics.keys()]

    @cached_property
    def learned(self) -> set[str]:
        """Metrics with a model of their own, besides ``objective``."""
        bounded = {constraint.metric for constraint in self.constraints}
        return bounded | {each.metric for each in self.objectives[1:]}

    @cached_property
    def failed(self) -> list[PastTrial]:
        """Failed or abandoned trials in the search space, unless another one succeeded there."""
        observed = [trial.parameters for trial in self.observed]
        return [
            trial
            for trial in self.trials
            if trial.has_failed
            and trial.parameters not in observed
            and self.space.contains(trial.parameters)
        ]

    @cached_property
    def evaluated(self) -> Tensor:
        """Realized points of the observed trials, ``m x d``."""
        return self.space.encode([trial.inputs for trial in self.observed])

    @cached_property
    def X_pending(self) -> Tensor | None:
        """Pending points, ``k x d``; None if there are none."""
        rows = [o.parameters for o in self.pending]
        return self.space.encode(rows) if rows else None

    @property
    def tried(self) -> Tensor:
        """Evaluated, failed, and pending points, ``n x d``."""
        rows = [trial.inputs for trial in self.failed] + [o.parameters for o in self.pending]
        return torch.cat([self.evaluated, *([self.space.encode(rows)] if rows else [])])

    @property
    def is_exhausted(self) -> bool:
        """True if the space is finite, and every point of it had a trial."""
        if not self.is_finite:
            return False
        counted = [t.parameters for t in self.trials if not t.is_excluded]
        rows = [row for row in counted if self.space.contains(row)]
        points = all_points(self.space, self.held)
        if points is None:
            return False
        return not len(untried(points, self.space.encode([*rows, *self.earlier_in_batch])))

    @property
    def given(self) -> dict[str, Value]:
        """Values that the trial has to have: fixed ones, and those that it shares."""
        return {**self.shared, **self.fixed}

    @cached_property
    def held(self) -> dict[int, float]:
        """Values of the given columns, by index."""
        return self.space.columns_of(self.given)

    @cached_property
    def fixed_columns(self) -> dict[int, float]:
        """Values of the columns that are fixed, also for what is deployed, by index."""
        return self.space.columns_of(self.fixed)

    def sharing(self, values: Row) -> Problem:
        """Return the problem of a trial that has these settings, since its batch has them.

        Raises:
            InputError: If no point of the space has them.
        """
        space = self.space.held_at({**values, **self.fixed})
        return self.prepare(replace(self, space=space, shared=values))

    @property
    def immovable(self) -> tuple[int, ...]:
        """Columns that a gradient step does not move: fixed, determined, or discrete."""
        return tuple(i for i in range(self.space.bounds.shape[-1]) if i not in self._free)

    @property
    def is_finite(self) -> bool:
        """True if finitely many points are left to choose from, given the fixed values.

        False if the caller fixes every parameter: that trial is wanted, even if it is a repeat.
        """
        is_requested = not self.disabled and len(self.fixed_columns) == self.space.bounds.shape[-1]
        return not self._free and not is_requested

    @cached_property
    def _free(self) -> set[int]:
        """Real columns that are neither fixed nor determined by equality constraints."""
        found = self.space.elimination
        return self.space.smooth - self.held.keys() - set(() if found is None else found.columns)

    @property
    def num_initial(self) -> int:
        """Number of earlier trials of the initial design, including those of the same batch."""
        return [t.record.get("phase") for t in self.trials].count("initial") + len(
            self.earlier_in_batch
        )

    @property
    def num_begun(self) -> int:
        """Number of trials that count towards ``initial_trials``."""
        return self.num_initial + self.num_attached


def decision_seed(seed: int, trial_index: int) -> int:
    """Return the seed of one decision: a function of the method's seed and the trial's index."""
    return int(np.random.SeedSequence([seed, trial_index]).generate_state(1)[0])


@contextmanager
def reproducible(seed: int) -> Iterator[None]:
    """Seed all random numbers, and use the default settings of torch and NumPy.

    Otherwise the default dtype or the error handling of a process would change its decisions. On
    exit everything is restored.
    """
    states = random.getstate(), np.random.get_state()  # noqa: NPY002
    dtype = torch.get_default_dtype()
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002
    torch.set_default_dtype(torch.float32)
    try:
        with (
            manual_seed(seed),
            torch.inference_mode(False),
            torch.enable_grad(),
            np.errstate(divide="warn", over="warn", under="ignore", invalid="warn"),
        ):
            yield
    finally:
        torch.set_default_dtype(dtype)
        random.setstate(states[0])
        np.random.set_state(states[1])  # noqa: NPY002


Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Decision:
    """Next trial, with the stored record of the choice."""

    parameters: dict[str, Value]
    """The trial's parameterization in raw units; uncontrolled inputs have nominal values."""

    why: str
    """The reason, in sentences."""

    expected_cost: float | None = None
    """Expected cost of the trial; None if it is unknown."""

    details: Mapping[str, Any] = field(default_factory=dict)
    """Basis of the choice, as plain JSON; stored as ``decision`` in the trial's record."""

    extra: Mapping[str, Any] = field(default_factory=dict)
    """Further entries of the record, as plain JSON, such as ``measure`` or ``control_set``."""

    value: float | None = None
    """Value of the acquisition function, on the scale of the model; None without one."""

    phase: str = "rule"
    """``"initial"`` for a trial of the initial design, else ``"rule"``."""

    def record(self) -> dict[str, Any]:
        """Return the record that is stored with the trial."""
        return {
            **self.extra,
            "expected_cost": self.expected_cost,
            "why": self.why,
            "phase": self.phase,
            "decision": dict(self.details),
        }


@dataclass(frozen=True)
class Stop:
    """No further trial: none is worth its cost, or none can be paid."""

    reason: str
    """The reason, the budget saved, and what to deploy, in sentences."""

    is_final: bool = True
    """False if the outcomes of pending trials may change it."""


@dataclass(frozen=True)
class Best:
    """Settings to deploy, with their posterior."""

    parameters: dict[str, Value]
    """Values to set, in raw units; other parameters are uncontrolled."""

    mean: float
    """Posterior mean of the objective, or of its expectation over uncontrolled inputs."""

    standard_deviation: float
    """Posterior standard deviation of the same."""

    expected_cost: float | None = None
    """Expected cost of a trial there; None if it is unknown, or no trial can be there."""

    control_set: str | None = None
    """Name of the control set, for a method with control sets."""

    trial_index: int | None = None
    """Index of the trial that evaluated it, or None."""

    feasibility: float | None = None
    """Probability that all outcome constraints hold; None without constraints."""

    means: Mapping[str, float] = field(default_factory=dict)
    """Posterior mean of each objective by name, if there are several; ``mean`` is the first."""

    standard_deviations: Mapping[str, float] = field(default_factory=dict)
    """Posterior standard deviation of each, if there are several."""


def feasibility_text(probability: float | None) -> str:
    """Return the probability of being feasible as the end of a sentence."""
    return "" if probability is None else f", feasible with probability {probability:.3g}"
