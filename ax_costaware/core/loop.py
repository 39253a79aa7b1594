"""The loop: from the history of an experiment to the next decision of a method.

It is the only one. Simulations and the generation node of an Ax experiment call it, so that
decisions are the same with and without Ax. It fits the model, provides an optimizer and a
quasi-random design, and decides whether the initial design continues.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import torch
from botorch.models.model import Model

from ax_costaware.argument_checks import LARGEST
from ax_costaware.core.batches import BATCH
from ax_costaware.core.curves import CurvePoint, curve_points
from ax_costaware.core.decision import check_all, next_trial, recommended
from ax_costaware.core.failures import is_futile
from ax_costaware.core.history import check_inputs
from ax_costaware.core.method import Method
from ax_costaware.core.model import (
    GivenModel,
    ModelOptions,
    check_lengthscales,
    winsorized,
)
from ax_costaware.core.optimize import design_of, maximize
from ax_costaware.core.problem import (
    Best,
    Decision,
    Problem,
    SpaceExhausted,
    Stop,
    decision_seed,
    reproducible,
)
from ax_costaware.exceptions import InputError
from ax_costaware.models.noise_variance import smoothed_variances
from ax_costaware.models.outcome_scale import OutcomeScale
from ax_costaware.space.parameters import Value


@dataclass(eq=False)
class Loop:
    """A method with its fitted models, which are refitted only if the data change.

    Raises:
        InputError: From any call, if the method cannot run the experiment, or lacks data.
    """

    method: Method
    """The method."""

    given: GivenModel = None
    """Model of the objective that the user asks for; None for the method's own."""

    _fitted: dict[str, tuple[object, OutcomeScale, Model]] = field(default_factory=dict, init=False)

    @property
    def options(self) -> ModelOptions:
        """Model of the objective, as far as it does not depend on the trials."""
        return self.method.model(self.given)

    def model_of(self, problem: Problem, metric: str | None = None) -> ModelOptions:
        """Return the model of the objective (None) or of another metric for a decision."""
        is_objective = metric is None or metric in _directions(problem)
        return self.method.model(self.given if is_objective else None, problem, metric)

    def prepared(self, problem: Problem) -> Problem:
        """Return a problem with its model, an optimizer and a quasi-random design."""

        def fit(metric: str | None = None) -> Model:
            return self._fit(made, metric)[1]

        def find_scale(metric: str | None = None) -> OutcomeScale:
            return self._fit(made, metric)[0]

        made: Problem = replace(
            problem,
            constraints=tuple(
                replace(
                    bound,
                    fit=partial(fit, bound.metric),
                    find_scale=partial(find_scale, bound.metric),
                )
                for bound in problem.constraints
            ),
            repeats=self.method.traits.repeats,
            objectives=tuple(
                replace(one, fit=partial(fit, name), find_scale=partial(find_scale, name))
                for one in problem.objectives
                for name in [None if one.metric == problem.objective else one.metric]
            ),
            fit=fit,
            find_scale=find_scale,
            prepare=self.prepared,
            maximize=lambda *args: maximize(made, *args),
            draw=lambda: next(design),
        )
        design: Iterator[dict[str, Value]] = design_of(made, self.method)
        return made

    def check(self, problem: Problem) -> None:
        """Refuse an experiment that the method cannot run.

        Raises:
            InputError: With the argument's name, its value, and what is expected.
        """
        check_all(self.method, problem)
        check_lengthscales(self.options.options, problem.space.bounds.shape[-1])

    def ask(self, problem: Problem) -> Decision | Stop:
        """Return the next trial, or a stop.

        Args:
            problem: Inputs of the decision, from ``prepared``.

        Raises:
            InputError: If the method cannot run the experiment, or lacks data.
        """
        self.check(problem)
        method, initial = self.method, self.is_initial(problem)
        first, shared = problem.earlier_in_batch[:1], method.traits.shared
        if first and shared:
            problem = problem.sharing({name: first[0][name] for name in shared})
        with reproducible(decision_seed(method.seed, problem.next_index)):
            decision = next_trial(method, problem, True) if initial else None
            if decision is not None and (stop := self._pause(problem)) is not None:
                return stop
            if decision == Stop(SpaceExhausted.REASON) and problem.observed:
                decision = None  # the model can already choose a further point
            if decision is None:
                decision = next_trial(method, problem, False)
        assert decision is not None
        if isinstance(decision, Decision) and (shared or method.trial_costs.setup):
            batch = {BATCH: len(problem.trials)}
            decision = replace(decision, extra={**decision.extra, **batch})
        return decision

    def recommend(self, problem: Problem) -> list[Best]:
        """Return what to deploy, best first.

        Args:
            problem: From ``prepared``, with at least one observed trial.
        """
        with reproducible(self.method.seed):
            self.method.check_outcomes(problem)
            return recommended(self.method, problem)

    def num_payable(self, problem: Problem) -> int:
        """Return the size of a batch that the budget pays for, see ``TrialCosts``."""
        return self.method.trial_costs.num_payable(problem, self.is_initial(problem))

    def is_initial(self, problem: Problem) -> bool:
        """True if the initial design continues.

        It ends if ``Method.initial`` returns None, or if

        - ``initial_trials`` trials of it did not fail, and
        - half of ``initial_trials``, but at least two if there are two, have outcomes.

        Until the second condition holds, trials that ended without an outcome are replaced.
        """
        method, measured = self.method, problem.measured
        if not measured:
            return True
        lacks = len(measured) < self._min_outcomes
        counted = [t for t in problem.trials if t.record.get("phase") == "initial"]
        counted = [t for t in counted if t.status not in _NOT_TRIED]
        if lacks and not method.traits.may_skip:
            indices = {trial.index for trial in measured}
            counted = [t for t in counted if t.is_live or t.index in indices]
        number = len(counted) + problem.num_attached + len(problem.earlier_in_batch)
        return lacks or number < method.initial_trials

    @property
    def _min_outcomes(self) -> int:
        """Number of outcomes that an initial design needs."""
        count = self.method.initial_trials
        return min(count, max(2, count // 2))

    def _pause(self, problem: Problem) -> Stop | None:
        """Return a stop if the initial design waits for outcomes, or lacks values; else None."""
        method = self.method
        if method.traits.may_skip or (method.traits.fills_batches and problem.earlier_in_batch):
            return None
        if len(problem.pending) >= max(1, method.initial_trials):
            return Stop("The initial design waits for the outcomes of its trials.", is_final=False)
        done = sum(trial.is_completed for trial in problem.trials)
        if problem.measured or not is_futile(done, method.initial_trials):
            return None
        names = sorted({problem.objective, *problem.learned})
        return Stop(
            f"None of the {done} completed trials has a value of all of {names}, so that no model "
            "can be fitted. Attach missing values by attach_data: the run continues from there.",
            is_final=False,
        )

    def _fit(self, problem: Problem, metric: str | None) -> tuple[OutcomeScale, Model]:
        """Return the scale and the fitted model of the objective (None) or of another metric.

        Raises:
            InputError: If no trial has a value of the metric, or an input is NaN.
        """
        method, name = self.method, problem.objective if metric is None else metric
        if metric is None:
            trials = problem.observed
            values = [trial.outcome for trial in trials]
        else:
            trials = [trial for trial in problem.trials if metric in trial.metrics]
            trials = [trial for trial in trials if not trial.has_lost_value]
            values = [trial.metrics[metric] for trial in trials]
        options, directions = self.model_of(problem, metric), _directions(problem)
        is_objective, minimize = name in directions, directions.get(name, False)
        if not trials:
            raise InputError(
                f"no trial has a value of {name!r}{_ROLES[is_objective] if metric else ''}: "
                f"complete a trial with it, as in complete_trial(client, i, {{{name!r}: ...}}), or "
                f"add it to an earlier one, by client.attach_data(i, {{{name!r}: ...}})."
            )
        check_inputs(trials)
        indices = [trial.index for trial in trials]
        points = [p for p in curve_points(method, problem, name) if p.trial_index in indices]
        variances = _variances([trial.errors.get(name) for trial in trials], points)
        counts = [trial.num_repeats.get(name, 1) for trial in trials] + [1] * len(points)
        values += [point.mean for point in points]
        rows = [trial.inputs for trial in trials] + [point.inputs for point in points]
        bounds = problem.space.bounds
        key = (rows, values, variances, counts, options.key, bounds.tolist(), minimize)
        if name not in self._fitted or self._fitted[name][0] != key:
            indices += [point.trial_index for point in points]
            X = method.model_points(problem, rows, indices)
            if method.traits.sees_time:
                bounds = torch.cat([bounds, bounds.new_tensor([[0.0], [1.0]])], dim=-1)
            Y = X.new_tensor(values)
            if is_objective and method.winsorize:
                Y = winsorized(Y, minimize, method.traits.winsorize_iqr)
            scale = options.scale_of(Y, minimize)
            Yvar = None if variances is None else X.new_tensor(variances) / scale.unit**2
            with reproducible(method.seed):
                if Yvar is not None and method.traits.repeats is None:
                    Yvar = smoothed_variances(X, Yvar, X.new_tensor(counts), bounds)
                options = options.within(problem.space).on(scale)
                made = options.fitted(X, scale.to_model(Y), bounds, Yvar)
            self._fitted[name] = key, scale, made
        return self._fitted[name][1:]


def _directions(problem: Problem) -> dict[str, bool]:
    """Return for each objective, by name, whether it is minimized."""
    return {
        problem.objective: problem.minimize,
        **{each.metric: each.minimize for each in problem.objectives},
    }


_ROLES = {True: ", which is an objective", False: ", which has bounds"}

_NOT_TRIED = frozenset({"FAILED", "ABANDONED"})


def _variances(errors: Sequence[float | None], points: Sequence[CurvePoint]) -> list[float] | None:
    """Return noise variances of trials and of points of curves; None if none is known.

    BoTorch's models take all variances or none. An unknown one is the mean of the known ones.
    """
    known = [error**2 for error in errors if error is not None and abs(error) <= LARGEST]
    if not known:
        return None
    mean = math.fsum(known) / len(known)
    return [
        mean if error is None or not abs(error) <= LARGEST else error**2
        for error in [*errors, *(point.sem for point in points)]
    ]
