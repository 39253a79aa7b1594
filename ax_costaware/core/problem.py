"""What one decision is made from, and what it is.

A ``Problem`` holds the trials so far, what is under way, what the caller fixed, the fitted model,
an optimizer of acquisition functions, and a quasi-random design. No rule is in it. Models see
outcomes on an ``OutcomeScale``, whose values are to be maximized; a decision is recorded in the
objective's own unit and sign.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
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
from ax_costaware.exceptions import unavailable
from ax_costaware.models.fantasies import fantasized
from ax_costaware.models.outcome_scale import OutcomeScale
from ax_costaware.models.posterior import FunctionalPosterior
from ax_costaware.space.finite_spaces import all_points, untried
from ax_costaware.space.parameters import Row, Value
from ax_costaware.space.space import Space

Pairs = Mapping[str, Mapping[str, Sequence[float | None]]]
"""Pairs of a point and its query that were gathered: by side, ``X`` or ``A``, columns by name."""


class Maximize(Protocol):
    """An optimiser of acquisition functions over the search space."""

    def __call__(
        self,
        acquisition: AcquisitionFunction,
        options: Mapping[str, Any],
        held: Mapping[int, float] | None = None,
    ) -> Optimum[float]:
        """The best point of an acquisition function.

        Args:
            acquisition: The function, of points ``b x 1 x d``.
            options: ``num_restarts`` and ``raw_samples``, where the caller says so.
            held: Columns to hold, with their values, beside those that the user fixes; some column
                of real numbers is left free, and there is no equality constraint.

        Raises:
            SpaceExhausted: If every point was tried, of a space that has finitely many.
        """
        ...


class SpaceExhausted(Exception):
    """Every point of the search space was tried; a user hears it as a ``Stop`` with ``REASON``."""

    REASON = "every point of the search space has been evaluated"


_OFTEN = 25
"""Observations after which a point counts as known: a fifth of the noise is left."""


class Pending(NamedTuple):
    """What is under way."""

    trial_index: int | None
    """The trial; None for a decision of the same batch, which is no trial yet."""

    parameters: dict[str, Value]
    """Its parameterization."""

    measure: bool = True
    """Whether it is to be measured."""


@dataclass(frozen=True)
class Problem:
    """What a method decides from; see the module."""

    space: Space
    """How parameters are encoded as columns of the model."""

    trials: tuple[PastTrial, ...] = ()
    """All trials so far, by increasing index."""

    pending: tuple[Pending, ...] = ()
    """What is under way, decisions of the same batch included, which are no trials yet."""

    known: tuple[Pending, ...] = ()
    """What of it counts as known, since a decision would repeat it otherwise."""

    fixed: Row = field(default_factory=dict)
    """Parameters that the caller fixes, with their values; those that were disabled, too."""

    disabled: Collection[str] = ()
    """The latter, which keep their values in every trial that sets them."""

    deployed_at: Row = field(default_factory=dict)
    """Known values of latent parameters, by name, for a recommendation."""

    minimize: bool = False
    """Direction of the objective."""

    objective: str = "objective"
    """Name of the objective."""

    metrics: frozenset[str] = frozenset()
    """Names of all metrics of the experiment."""

    constraints: tuple[OutcomeConstraint, ...] = ()
    """Bounds on further outcomes, one for each of them."""

    num_attached: int = 0
    """Trials with data that count towards the initial ones: attached, or of an earlier strategy."""

    pairs: Pairs = field(default_factory=dict)
    """Pairs that were gathered while the experiment runs."""

    fit: Callable[[], Model] = unavailable
    """Gives the model, fitted to the outcomes on their scale."""

    find_scale: Callable[[], OutcomeScale] = unavailable
    """Gives the scale of the outcomes that the model is fitted to."""

    maximize: Maximize = unavailable
    """Maximizes an acquisition function."""

    draw: Callable[[], Row] = unavailable
    """Gives the next parameterization of a quasi-random design."""

    @cached_property
    def model(self) -> Model:
        """The fitted model; what counts as known is observed often, at its posterior mean."""
        # It may be asked for where no gradients are kept.
        with torch.enable_grad():
            model = self.fit()
        if not self.known:
            return model
        points = self.space.encode([o.parameters for o in self.known])
        return fantasized(model, points.repeat(_OFTEN, 1))

    @cached_property
    def scale(self) -> OutcomeScale:
        """The scale on which the model sees outcomes: of order one, and larger is better."""
        return self.find_scale()

    @cached_property
    def posterior(self) -> FunctionalPosterior:
        """The model's posterior; what is under way is not in it."""
        return FunctionalPosterior.of(self.model)

    @cached_property
    def feasibility(self) -> Feasibility[FunctionalPosterior] | None:
        """The probability of being within all bounds; None where there are none."""
        if not self.constraints:
            return None
        return Feasibility.of(self.constraints, FunctionalPosterior.of)

    def drawn(self, most: int) -> Iterator[Row]:
        """Some of at most so many trials of the quasi-random design: those that have not failed.

        A design that begins anew, as that of another strategy, comes by what failed, and by what
        was tried, where there are real numbers to choose.
        """
        passed = [trial.parameters for trial in (self.trials if self._free else self.failed)]
        rows = (self.draw() for _ in range(most))
        yield from (row for row in rows if row not in passed)

    def as_fixed(self, row: Row) -> dict[str, Value]:
        """A parameterization with what is fixed, and what equality constraints make of the rest."""
        found = {**row, **self.fixed}
        if self.fixed and self.space.elimination is not None:
            (found,) = self.space.decode(self.space.complete(self.space.encode([found])))
        return found

    def is_deployable(self, row: Row) -> bool:
        """Return whether inputs can be set now, with what the caller fixes.

        Inputs outside of the search space teach the model, and are charged; they are no incumbent,
        and nothing to deploy. They come from past data, from bounds or constraints that were
        changed, or are realized inputs that nobody asked for.
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
        """Parameterizations of decisions of the same batch that are no trials yet."""
        return [o.parameters for o in self.pending if o.trial_index is None]

    @property
    def next_index(self) -> int:
        """Index that the next trial will have."""
        return len(self.trials) + len(self.earlier_in_batch)

    @property
    def goal(self) -> str:
        """What is to be maximised, as Ax writes it: what a price is in units of."""
        return f"{'-' if self.minimize else ''}{self.objective}"

    @property
    def observed(self) -> list[PastTrial]:
        """The trials that the model has learned from."""
        return [trial for trial in self.trials if trial.is_observed]

    @property
    def measured(self) -> list[PastTrial]:
        """The trials with a value of the objective and of every outcome that has bounds."""
        bounded = {constraint.metric for constraint in self.constraints}
        return [trial for trial in self.observed if bounded <= trial.metrics.keys()]

    @cached_property
    def failed(self) -> list[PastTrial]:
        """The trials that failed, or were given up, where none has succeeded since."""
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
        """Points of the trials that the model has learned from, as realised: ``m x d``."""
        return self.space.encode([trial.inputs for trial in self.observed])

    @cached_property
    def X_pending(self) -> Tensor | None:
        """Points that are under way, ``k x d``; None if there are none."""
        rows = [o.parameters for o in self.pending]
        return self.space.encode(rows) if rows else None

    @property
    def tried(self) -> Tensor:
        """Points that were evaluated, failed, or are under way: ``n x d``."""
        rows = [trial.inputs for trial in self.failed] + [o.parameters for o in self.pending]
        return torch.cat([self.evaluated, *([self.space.encode(rows)] if rows else [])])

    @property
    def is_exhausted(self) -> bool:
        """Whether finitely many points are left to choose from, and every one had a trial."""
        if not self.is_finite:
            return False
        counted = [t.parameters for t in self.trials if not t.is_excluded]
        rows = [row for row in counted if self.space.contains(row)]
        points = all_points(self.space, self.held)
        if points is None:
            return False
        return not len(untried(points, self.space.encode([*rows, *self.earlier_in_batch])))

    @cached_property
    def held(self) -> dict[int, float]:
        """Columns of the model's space that the caller fixes, with their values."""
        return self.space.columns_of(self.fixed)

    @property
    def immovable(self) -> tuple[int, ...]:
        """Columns that a local search leaves as they are: fixed, determined, or no real numbers."""
        return tuple(i for i in range(self.space.bounds.shape[-1]) if i not in self._free)

    @property
    def is_finite(self) -> bool:
        """Whether there are finitely many points to choose from, with what is fixed.

        Not so where the caller says all: that trial is asked for, again or not.
        """
        is_said = not self.disabled and len(self.held) == self.space.bounds.shape[-1]
        return not self._free and not is_said

    @cached_property
    def _free(self) -> set[int]:
        """Columns of real numbers that are neither fixed nor determined by others."""
        found = self.space.elimination
        return self.space.smooth - self.held.keys() - set(() if found is None else found.columns)

    @property
    def num_initial(self) -> int:
        """Earlier trials of the initial design, undelivered ones included."""
        return [t.record.get("phase") for t in self.trials].count("initial") + len(
            self.earlier_in_batch
        )

    @property
    def num_begun(self) -> int:
        """Trials that count towards ``initial_trials``: the design's, and ``num_attached``."""
        return self.num_initial + self.num_attached


def decision_seed(seed: int, trial_index: int) -> int:
    """Seed of the decision on one trial: decisions of one run differ, and each one replays."""
    return int(np.random.SeedSequence([seed, trial_index]).generate_state(1)[0])


@contextmanager
def reproducible(seed: int) -> Iterator[None]:
    """Random numbers from a seed, and the settings of torch and numpy as they are at first.

    A decision is a function of what is stored, whatever default type or error handling a process
    has set; all of it is restored.
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
    """The next trial, and what is stored of how it was chosen."""

    parameters: dict[str, Value]
    """The trial's parameterization in raw units; what it leaves to chance has nominal values."""

    why: str
    """The reason, in sentences."""

    expected_cost: float | None = None
    """What the trial is expected to cost; None while nothing is known of it."""

    details: Mapping[str, Any] = field(default_factory=dict)
    """What the choice was made from, as plain JSON: ``decision`` in the stored record."""

    extra: Mapping[str, Any] = field(default_factory=dict)
    """What else is stored beside it: whether to ``measure``, the ``control_set``, and so on."""

    value: float | None = None
    """Value of what was maximised, on the scale of the model; None where nothing was."""

    phase: str = "rule"
    """``"initial"`` for a trial of the initial design, else ``"rule"``."""

    def record(self) -> dict[str, Any]:
        """What is stored with the trial."""
        return {
            **self.extra,
            "expected_cost": self.expected_cost,
            "why": self.why,
            "phase": self.phase,
            "decision": dict(self.details),
        }


@dataclass(frozen=True)
class Stop:
    """That no trial is worth its cost, or none can be paid."""

    reason: str
    """Why, what was saved, and what to deploy, in sentences."""

    is_final: bool = True
    """Whether it stays so, whatever comes of what is under way."""


@dataclass(frozen=True)
class Best:
    """Something that could be deployed, and what the model says of it."""

    parameters: dict[str, Value]
    """The values to set, in raw units; the rest, if there is any, is left to chance."""

    mean: float
    """Posterior mean of the objective, of its expectation over what is left to chance."""

    standard_deviation: float
    """Posterior standard deviation of that."""

    expected_cost: float | None = None
    """What a trial there is expected to cost; None if it is no trial, or nothing is known."""

    control_set: str | None = None
    """Name of the control set, for a method that has them."""

    trial_index: int | None = None
    """The trial that evaluated it, if one did."""

    feasibility: float | None = None
    """Probability that all outcome constraints hold; None where there are none."""


def feasibility_text(probability: float | None) -> str:
    """Return how likely something is to be feasible, as the end of a sentence."""
    return "" if probability is None else f", feasible with probability {probability:.3g}"
