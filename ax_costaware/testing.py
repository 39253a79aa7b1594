"""Tests that every method has to pass, also one of your own: ``MethodContract``.

Derive a class in a test file, and pytest runs each of its tests:

.. code-block:: python

    class TestMyMethod(MethodContract):
        parameters = [RangeParameterConfig(name, (0, 1), "float") for name in ("a", "b")]

        def strategy(self, unit=1.0):
            return ac.strategy_of(MyMethod(price=unit, budget=40 * unit, initial_trials=3))

        def outcome(self, inputs):
            return inputs["a"] - inputs["b"] ** 2

The package does not import this module, which needs pytest.
"""

from __future__ import annotations

import json
import math
import random
import shutil
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import FrozenInstanceError, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest
import torch
from ax.api.client import Client
from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig, StorageConfig
from ax.core.analysis_card import ErrorAnalysisCard
from ax.core.experiment import Experiment
from ax.core.trial_status import TrialStatus
from ax.exceptions.core import (
    DataRequiredError,
    OptimizationShouldStop,
    UnsupportedError,
    UserInputError,
)
from ax.generation_strategy.generation_strategy import GenerationStrategy
from ax.generators.torch.botorch_modular.surrogate import SurrogateSpec

from ax_costaware.analysis import overview
from ax_costaware.ax_bridge.client import create_tables, open_session
from ax_costaware.ax_bridge.node import fitted_problem, node_of
from ax_costaware.ax_bridge.records import decision_record
from ax_costaware.ax_bridge.search_space import space_of
from ax_costaware.ax_bridge.strategy import strategy_of
from ax_costaware.core import Decision, Objective, Outcome, OutcomeConstraint, Simulation, Stop
from ax_costaware.core.method import Method
from ax_costaware.exceptions import InputError
from ax_costaware.session import (
    attach_table,
    complete_trial,
    exclude_trial,
    query,
    recommend,
    report_cost,
    set_budget,
    should_stop,
    spending,
)

__all__ = ["MethodContract", "next_decision"]

_NAME = "contract"
_METRIC = "objective"
_BOUNDED = "bounded"

_RUNNING, _FIXED, _FAILED, _COUNT = 3, 5, 6, 8
"""The story of a run, by positions: a trial that runs while all later ones are chosen, one with
fixed parameters, and one that fails; the number of trials. The run is stored before the last."""

_UNIT = 2.0**20
"""Another unit. A power of two changes no digit of a scaled number."""


def next_decision(path: str) -> dict[str, Any]:
    """Return the next decision on a stored experiment of the contract.

    Args:
        path: A JSON file, or an SQLite file that ends in ``.db``.

    Returns:
        The ``parameters`` of the trial, and its ``record``, as JSON has them.
    """
    if path.endswith(".db"):
        storage = StorageConfig(url=f"sqlite:///{path}")
        client = Client.load_from_database(_NAME, storage_config=storage)
    else:
        client = Client.load_from_json_file(path)
    ((index, _),) = client.get_next_trials(max_trials=1).items()
    return _said(client, index)


def _parts(client: Any) -> tuple[Experiment, GenerationStrategy]:
    session = open_session(client)
    return session.experiment, session.strategy


def _experiment(client: Any) -> Experiment:
    return _parts(client)[0]


def _strategy(client: Any) -> GenerationStrategy:
    return _parts(client)[1]


def _arm(client: Any, index: int) -> dict[str, Any]:
    return dict(_experiment(client).trials[index].arms[0].parameters)


def _said(client: Client, index: int) -> dict[str, Any]:
    """Return the parameters and the record of a trial, as JSON has them."""
    trial = _experiment(client).trials[index]
    said = {"parameters": dict(trial.arms[0].parameters), "record": decision_record(trial)}
    found: dict[str, Any] = json.loads(json.dumps(said, allow_nan=False))
    return found


def _parameters(decisions: Sequence[Decision]) -> list[dict[str, Any]]:
    return [decision.parameters for decision in decisions]


def _numbers(value: Any) -> Iterator[float]:
    """Yield all numbers in nested JSON."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for part in value:
            yield from _numbers(part)
    elif isinstance(value, int | float):
        yield value


@dataclass
class _Run:
    """A run that has been made, and the stores of it."""

    client: Client
    folder: Path
    said: list[dict[str, Any]] = field(default_factory=list)
    stored: dict[str, str] = field(default_factory=dict)
    """Paths, before the last decision."""


class MethodContract:
    """Contract of a method, as pytest tests of one small experiment.

    A subclass defines ``parameters``, ``strategy`` and ``outcome``. Its strategy has a budget for
    about thirty trials, and few ``initial_trials``. Outcomes and costs are functions of the inputs
    alone. What a method does not support is named in ``refuses``, and is tested to be refused.
    """

    parameters: ClassVar[Sequence[RangeParameterConfig | ChoiceParameterConfig]]
    """Parameters of the experiment."""

    parameter_constraints: ClassVar[Sequence[str]] = ()
    """Parameter constraints of the experiment."""

    minimize: ClassVar[bool] = False
    """True to minimize the outcome."""

    further: ClassVar[Sequence[Objective]] = ()
    """Objectives besides ``outcome``, with thresholds, whose values ``metrics`` returns."""

    threshold: ClassVar[float | None] = None
    """Threshold of ``outcome`` if there are further objectives."""

    fixed: ClassVar[Mapping[str, Any]] = {}
    """Values of parameters that one trial is asked for with."""

    refuses: ClassVar[Mapping[str, str]] = {}
    """Unsupported features: a regular expression of the refusal, by the name of the feature. Names
    are ``outcome constraints``, ``lmbda``, ``should_stop``, ``predict``, and ``attach_table``."""

    tolerance: ClassVar[float] = 1e-4
    """Tolerance of decisions with costs in another unit, as a part of a parameter's range."""

    is_deterministic: ClassVar[bool] = False
    """True if first decisions may be the same with any seed."""

    def strategy(self, unit: float = 1.0) -> GenerationStrategy:
        """Return a new strategy.

        Args:
            unit: All costs and the budget are multiplied by it, and a price is divided by it.
        """
        raise NotImplementedError

    def outcome(self, inputs: Mapping[str, Any]) -> float:
        """Return the objective, larger being better, at a trial's inputs as realized."""
        raise NotImplementedError

    def repeats(self, inputs: Mapping[str, Any]) -> Sequence[float]:
        """Return values of the objective to report as repeats; none to report ``outcome``."""
        return ()

    def metrics(self, inputs: Mapping[str, Any]) -> Mapping[str, float]:
        """Return further objectives, and metrics that the method reads."""
        return {}

    def cost(self, inputs: Mapping[str, Any]) -> float | None:
        """Return the cost to report; None if costs are declared."""
        return None

    def realized(self, parameters: Mapping[str, Any], trial_index: int) -> Mapping[str, Any]:
        """Return the values of inputs that a trial leaves uncontrolled."""
        return {}

    # Experiments

    def client(self, bound: float | None = None, **changed: Any) -> Client:
        """Return the experiment, before its first trial.

        Args:
            bound: Upper bound of a further outcome; None for no outcome constraint.
            changed: Fields of the method.
        """
        return self._client(None, bound, changed)

    def _client(
        self, storage: StorageConfig | None, bound: float | None, changed: Mapping[str, Any]
    ) -> Client:
        client = Client(storage_config=storage)
        client.configure_experiment(
            name=_NAME,
            parameters=self.parameters,
            parameter_constraints=list(self.parameter_constraints),
        )
        constraints = [
            f"{one.metric} {'<=' if one.minimize else '>='} {one.threshold}"
            for one in self._objectives(self.minimize)
        ]
        client.configure_optimization(
            objective=", ".join(
                map(str, self._objectives(self.minimize) or [Objective(_METRIC, self.minimize)])
            ),
            outcome_constraints=constraints + ([] if bound is None else [f"{_BOUNDED} <= {bound}"]),
        )
        strategy = self._strategy(**changed)
        if metrics := [*node_of(strategy).method.reads]:
            client.configure_tracking_metrics(metrics)
        client.set_generation_strategy(strategy)
        return client

    def _objectives(self, minimize: bool, scale: float = 1.0) -> tuple[Objective, ...]:
        """Return all objectives, if there are several, with the first one in another unit."""
        if not self.further:
            return ()
        first = None if self.threshold is None else scale * self.threshold
        return (Objective(_METRIC, minimize, first), *self.further)

    def _strategy(self, unit: float = 1.0, **changed: Any) -> GenerationStrategy:
        node = node_of(self.strategy(unit))
        if not changed:
            return self.strategy(unit)
        return strategy_of(replace(node.method, **changed), node.surrogate_spec)

    def simulation(
        self,
        unit: float = 1.0,
        minimize: bool | None = None,
        bound: float | None = None,
        scale: float = 1.0,
        **changed: Any,
    ) -> Simulation:
        """Return the experiment without Ax, before its first trial."""
        strategy = self._strategy(unit, **changed)
        node, search_space = node_of(strategy), _experiment(self.client()).search_space
        given = node.surrogate_spec
        minimize = self.minimize if minimize is None else minimize
        return Simulation(
            node.method,
            space_of(search_space, node.method.traits),
            minimize,
            node.loop.options if isinstance(given, SurrogateSpec) else given,
            constraints=[] if bound is None else [OutcomeConstraint(_BOUNDED, upper=bound)],
            objectives=self._objectives(minimize, scale),
        )

    @property
    def method(self) -> Method:
        """The method."""
        return node_of(self.strategy()).method

    def _inputs(self, parameters: Mapping[str, Any], index: int) -> dict[str, Any]:
        return {**parameters, **self.realized(parameters, index)}

    def _bounded(self, inputs: Mapping[str, Any]) -> float:
        """Return a further outcome between 0 and 1: the place in the first range."""
        first = next(
            p for p in self.parameters if isinstance(p, RangeParameterConfig) and p.name in inputs
        )
        lower, upper = map(float, first.bounds)
        return (float(inputs[first.name]) - lower) / (upper - lower)

    def _outcomes(self, inputs: Mapping[str, Any], bound: float | None = None) -> dict[str, float]:
        sign = -1.0 if self.minimize else 1.0
        more = {} if bound is None else {_BOUNDED: self._bounded(inputs)}
        return {_METRIC: sign * self.outcome(inputs), **self.metrics(inputs), **more}

    def _repeats(self, inputs: Mapping[str, Any]) -> list[float]:
        return [(-1.0 if self.minimize else 1.0) * one for one in self.repeats(inputs)]

    def complete(self, client: Any, index: int, bound: float | None = None) -> None:
        """Complete a trial of the experiment, as ``query`` asks for it."""
        parameters = _arm(client, index)
        if not query(client, index).measure:
            complete_trial(client, index)
            return
        inputs = self._inputs(parameters, index)
        realized = dict(self.realized(parameters, index)) or None
        outcomes: dict[str, Any] = self._outcomes(inputs, bound)
        if repeats := self._repeats(inputs):
            outcomes[_METRIC] = repeats
        complete_trial(client, index, outcomes, realized=realized, cost=self.cost(inputs))

    def _told(
        self,
        decision: Decision,
        index: int,
        scale: float = 1.0,
        unit: float = 1.0,
        bound: float | None = None,
    ) -> Outcome:
        """Return the outcome of a simulated trial."""
        inputs = self._inputs(decision.parameters, index)
        realized = dict(self.realized(decision.parameters, index))
        if not decision.extra.get("measure", True):
            return Outcome(None, None, realized or None)
        measured, cost = self._outcomes(inputs, bound), self.cost(inputs)
        value, repeats = scale * measured.pop(_METRIC), self._repeats(inputs)
        return Outcome(
            None if repeats else value,
            None if cost is None else unit * cost,
            realized or None,
            measured,
            repeats=[scale * one for one in repeats] or None,
        )

    def _simulated(
        self, count: int, scale: float = 1.0, unit: float = 1.0, **arguments: Any
    ) -> tuple[Simulation, list[Decision]]:
        """Run trials one after the other without Ax, until a stop."""
        simulation, decisions = self.simulation(unit, scale=scale, **arguments), []
        for index in range(count):
            decision = simulation.ask()
            if isinstance(decision, Stop):
                break
            decisions.append(decision)
            told = self._told(decision, index, scale, unit, arguments.get("bound"))
            simulation.tell(decision, told)
        return simulation, decisions

    def _started(self, count: int, **changed: Any) -> Client:
        """Return an experiment of completed trials."""
        client = self.client(**changed)
        for _ in range(count):
            self.complete(client, self._ask(client), changed.get("bound"))
        return client

    @staticmethod
    def _ask(client: Client, fixed: Mapping[str, Any] | None = None) -> int:
        (index,) = client.get_next_trials(max_trials=1, fixed_parameters=dict(fixed or {}) or None)
        return int(index)

    @pytest.fixture(scope="class")
    @classmethod
    def run(cls, tmp_path_factory: pytest.TempPathFactory) -> _Run:
        """Make a run of eight trials that no test changes, with stores of it."""
        contract, folder = cls(), tmp_path_factory.mktemp(_NAME)
        storage = None
        try:
            create_tables(f"sqlite:///{folder / 'run.db'}")
            storage = StorageConfig(url=f"sqlite:///{folder / 'run.db'}")
        except ImportError:
            pass
        run = _Run(contract._client(storage, None, {}), folder)
        for position in range(_COUNT):
            if position == _COUNT - 1:
                contract._store(run)
            index = contract._ask(run.client, contract.fixed if position == _FIXED else None)
            run.said.append(_said(run.client, index))
            if position == _FAILED:
                run.client.mark_trial_failed(index)
            elif position != _RUNNING:
                contract.complete(run.client, index)
        contract.complete(run.client, _RUNNING)
        return run

    @pytest.fixture(scope="class")
    @classmethod
    def usual(cls) -> tuple[Simulation, list[Decision]]:
        """Run trials one after the other without Ax; no test goes on with it."""
        return cls()._simulated(cls()._few)

    @property
    def _few(self) -> int:
        return self.method.initial_trials + 3

    def _store(self, run: _Run) -> None:
        run.stored["json"] = str(run.folder / "run.json")
        run.client.save_to_json_file(run.stored["json"])
        if (database := run.folder / "run.db").exists():
            run.stored["db"] = str(shutil.copy(database, run.folder / "stored.db"))

    @pytest.fixture
    def resumed(self) -> Callable[[str], dict[str, Any]]:
        """``next_decision``; override it to load in a process of its own."""
        return next_decision

    # Decisions

    def test_decisions_equal_those_without_ax(self, run: _Run) -> None:
        """Bit for bit, with a pending trial, fixed parameters and a failure."""
        simulation = self.simulation()
        running: Decision | None = None
        for position, said in enumerate(run.said):
            decision = simulation.ask(self.fixed if position == _FIXED else None)
            assert isinstance(decision, Decision), decision
            assert decision.parameters == said["parameters"], position
            assert said["record"]["why"].startswith(decision.why)
            if position == _RUNNING:
                simulation.start(running := decision)
            elif position == _FAILED:
                simulation.tell(decision, Outcome(failed=True))
            else:
                simulation.tell(decision, self._told(decision, position))
        assert running is not None
        simulation.tell(running, self._told(running, _RUNNING), _RUNNING)
        best, found = simulation.recommend(), recommend(run.client)
        assert best.parameters == found.parameters
        assert found.expected_value == pytest.approx(best.mean, rel=1e-9)
        ledger = [(entry.charged, entry.initial) for entry in simulation.ledger]
        assert ledger == [(e.charged, e.initial) for e in spending(run.client).entries]

    @pytest.mark.parametrize("store", ["json", "db"])
    def test_a_stored_experiment_continues_alike(
        self, run: _Run, resumed: Callable[[str], dict[str, Any]], store: str
    ) -> None:
        """With a pending trial, and after a failure."""
        if store not in run.stored:
            pytest.skip("SQLAlchemy is not installed")
        assert resumed(run.stored[store]) == run.said[-1]

    def test_settings_are_values(self, run: _Run) -> None:
        """They compare, print, are frozen, and survive a store."""
        method = self.method
        assert method == self.method
        assert type(method).__name__ in repr(method)
        with pytest.raises(FrozenInstanceError):
            method.seed = 1  # type: ignore[misc]
        loaded = Client.load_from_json_file(run.stored["json"])
        assert node_of(_strategy(loaded)).method == method
        for index in range(_RUNNING):
            assert query(loaded, index) == query(run.client, index)
            assert spending(loaded).entries[index] == spending(run.client).entries[index]
        assert recommend(loaded).standard_deviation >= 0

    def test_the_seed_alone_is_random(self, usual: tuple[Simulation, list[Decision]]) -> None:
        """The same seed decides alike, whatever state global generators have, and leaves it."""
        count = self.method.initial_trials + 1
        found: list[list[dict[str, Any]]] = []
        for seed in (self.method.seed, self.method.seed + 1):
            torch.manual_seed(len(found))
            np.random.seed(len(found))  # noqa: NPY002
            random.seed(len(found))
            before = torch.get_rng_state(), np.random.get_state()[1], random.getstate()  # type: ignore[index]  # noqa: NPY002
            _, decisions = self._simulated(count, seed=seed)
            after = torch.get_rng_state(), np.random.get_state()[1], random.getstate()  # type: ignore[index]  # noqa: NPY002
            assert repr(before) == repr(after)
            found.append(_parameters(decisions))
        assert found[0] == _parameters(usual[1][:count])
        assert found[0] != found[1] or self.is_deterministic

    def test_settings_of_a_process_do_not_matter(
        self, usual: tuple[Simulation, list[Decision]]
    ) -> None:
        """Such as the default type of torch, or errors of numpy."""
        count, dtype = self.method.initial_trials + 2, torch.get_default_dtype()
        try:
            torch.set_default_dtype(torch.float64 if dtype == torch.float32 else torch.float32)
            with torch.no_grad(), np.errstate(all="raise"):
                _, decisions = self._simulated(count)
        finally:
            torch.set_default_dtype(dtype)
        assert _parameters(decisions) == _parameters(usual[1][:count])

    def test_directions_mirror_each_other(self, usual: tuple[Simulation, list[Decision]]) -> None:
        """Minimizing ``-y`` asks for the same trials as maximizing ``y``."""
        one, found = usual
        other, mirrored = self._simulated(self._few, scale=-1.0, minimize=not self.minimize)
        assert _parameters(found) == _parameters(mirrored)
        assert one.recommend().mean == pytest.approx(-other.recommend().mean, rel=1e-6, abs=1e-9)

    def test_the_unit_of_outcomes_does_not_matter(
        self, usual: tuple[Simulation, list[Decision]]
    ) -> None:
        """Where hyperparameters are fitted, and no price relates outcomes to costs."""
        if not self._is_fitted or getattr(self.method, "lmbda", None) is not None:
            pytest.skip("the strategy has numbers in the unit of outcomes")
        assert _parameters(self._simulated(self._few, _UNIT)[1]) == _parameters(usual[1])

    def test_the_unit_of_costs_does_not_matter(
        self, usual: tuple[Simulation, list[Decision]]
    ) -> None:
        """``strategy`` is made in another unit, and everything is charged in it."""
        (one, found), (other, scaled) = usual, self._simulated(self._few, unit=_UNIT)
        ranges = {p.name: p for p in self.parameters if isinstance(p, RangeParameterConfig)}
        for a, b in zip(found, scaled, strict=True):
            expected = {
                name: pytest.approx(value, abs=self.tolerance * np.ptp(ranges[name].bounds))
                if name in ranges
                else value
                for name, value in a.parameters.items()
            }
            assert expected == b.parameters
        charged = [_UNIT * entry.charged for entry in one.ledger]
        assert [e.charged for e in other.ledger] == pytest.approx(charged, rel=10 * self.tolerance)

    @property
    def _is_fitted(self) -> bool:
        node = node_of(self.strategy())
        return bool(node.loop.options.is_fitted)

    def test_a_batch_is_decided_one_by_one(self, run: _Run) -> None:
        """Trials of a batch are pending for the next ones; no two are the same.

        With switching costs they are then in the order of the least switching costs.
        """
        together, single = (Client.load_from_json_file(run.stored["json"]) for _ in range(2))
        batch = together.get_next_trials(max_trials=2)
        shared, setup = self.method.traits.shared, self.method.trial_costs.setup
        if shared or setup:  # the first trial depends on how many follow
            for name in shared:
                assert len({arm[name] for arm in batch.values()}) == 1
            first, *others = spending(together).entries[-len(batch) :]
            assert first.switching_cost >= setup
            assert all(entry.switching_cost < setup for entry in others)
            return
        for index in batch:
            assert self._ask(single) == index
        alone, found = (
            [_said(client, index)["parameters"] for index in batch] for client in (single, together)
        )
        if self.method.trial_costs.switching is not None:
            changes = [spending(client).switching_costs for client in (together, single)]
            assert changes[0] <= changes[1] * (1 + 1e-9)
            alone, found = (sorted(each, key=repr) for each in (alone, found))
        assert alone == found
        if not any(self.realized(arm, index) for index, arm in batch.items()):
            assert len({repr(arm) for arm in batch.values()}) == len(batch)

    def test_fixed_parameters(self, run: _Run) -> None:
        """They are kept exactly, recorded, and refused by name if there is no such parameter."""
        said = run.said[_FIXED]
        for name, value in self.fixed.items():
            assert said["parameters"][name] == value
            assert f"'{name}': {value!r}" in said["record"]["why"]
        with pytest.raises(UserInputError, match="nobody"):
            self._ask(self.client(), {"nobody": 1})

    def test_failed_trials(self, run: _Run) -> None:
        """One is charged, is not proposed again, and is not learned from."""
        entry = spending(run.client).entries[_FAILED]
        assert entry.status == "FAILED"
        assert entry.charged > 0 or entry.expected_cost == 0
        failed, later = (run.said[place]["parameters"] for place in (_FAILED, _FAILED + 1))
        assert failed != later or self.realized(failed, _FAILED)
        problem = fitted_problem(*_parts(run.client))
        if not self.realized(failed, _FAILED):
            assert [trial.index for trial in problem.failed] == [_FAILED]
        assert _FAILED not in {trial.index for trial in problem.observed}

    @pytest.mark.parametrize("status", [TrialStatus.ABANDONED, TrialStatus.STALE])
    def test_trials_that_never_ran(self, status: TrialStatus) -> None:
        """They are free, and the design goes on; a cost that is reported is charged."""
        client = self.client()
        self.complete(client, self._ask(client))
        index = self._ask(client)
        _experiment(client).trials[index].mark_as(status, unsafe=True)
        spent = spending(client)
        assert spent.entries[index].charged == 0.0
        assert decision_record(_experiment(client).trials[self._ask(client)])["why"]
        report_cost(client, index, 3.0)
        assert spending(client).entries[index].charged == (3.0 if self.method.charge_initial else 0)

    def test_all_trials_fail(self) -> None:
        """The run ends with the reason, and without a model."""
        client, reason = self.client(), ""
        for _ in range(3 * self.method.initial_trials + 10):
            try:
                client.mark_trial_failed(self._ask(client))
            except OptimizationShouldStop as stop:
                reason = str(stop)
                break
        assert "failed or were abandoned" in reason

    def test_excluded_trials(self) -> None:
        """A trial that was a mistake is neither learned from nor charged."""
        client = self._started(2)
        wrong = client.attach_trial(_arm(client, 0))
        client.complete_trial(wrong, {_METRIC: 1e3})
        exclude_trial(client, wrong, "a mistake")
        entry = spending(client).entries[wrong]
        assert (entry.charged, entry.status) == (0.0, "ABANDONED")
        problem = node_of(_strategy(client)).problem(_experiment(client))
        assert wrong not in {trial.index for trial in (*problem.observed, *problem.failed)}
        assert self._ask(client) == wrong + 1

    # Outcome constraints

    def test_outcome_constraints(self, tmp_path: Path) -> None:
        """Deployed points are likely to be feasible; or constraints are refused before a trial."""
        client, count = self.client(bound=0.5), self.method.initial_trials + 2
        if "outcome constraints" in self.refuses:
            with pytest.raises(UnsupportedError, match=self.refuses["outcome constraints"]):
                self._ask(client)
            assert not _experiment(client).trials
            return
        _, decisions = self._simulated(count, bound=0.5)
        for decision in decisions:
            index = self._ask(client)
            assert _arm(client, index) == decision.parameters
            self.complete(client, index, bound=0.5)
        best = recommend(client)
        assert best.feasibility is not None
        others = [other.feasibility or 0.0 for other in best.alternatives]
        threshold = self.method.feasibility_threshold
        assert best.feasibility >= min(threshold, *others, 1.0)
        assert 0.0 <= best.feasibility <= 1.0
        path = str(tmp_path / "bounded.json")
        client.save_to_json_file(path)
        index = self._ask(client)
        assert next_decision(path) == _said(client, index)

    # Reports

    def test_bad_reports_change_nothing(self) -> None:
        """Each is refused by the name of what is wrong, and the trial runs on."""
        client = self.client()
        index = self._ask(client)
        inputs = self._inputs(_arm(client, index), index)
        realized, good = dict(self.realized(inputs, index)), self._outcomes(inputs)
        cases: list[tuple[dict[str, Any], str]] = [
            ({"raw_data": {**good, _METRIC: math.nan}}, "nan"),
            ({"raw_data": {**good, _METRIC: (1.0, -0.1)}}, "-0.1"),
            ({"raw_data": {**good, "no metric": 1.0}}, "no metric"),
            ({"raw_data": good, "cost": -1.0}, "cost"),
            ({"raw_data": good, "cost": math.inf}, "cost"),
            ({"raw_data": good, "realized": {**realized, "nobody": 1.0}}, "nobody"),
        ]
        before = _experiment(client).data.df.copy()
        for arguments, named in cases:
            arguments = {"realized": realized or None, "cost": self.cost(inputs), **arguments}
            with pytest.raises(UserInputError, match=named):
                complete_trial(client, index, **arguments)
            assert _experiment(client).trials[index].status is TrialStatus.RUNNING
        assert _experiment(client).data.df.equals(before)
        with pytest.raises(UserInputError, match="trial_index"):
            complete_trial(client, 99, 1.0)
        self.complete(client, index)
        with pytest.raises(UserInputError, match="already completed"):
            complete_trial(client, index, {**good, _METRIC: 5.0})

    def test_a_reported_cost_is_charged(self) -> None:
        """Also one that is corrected later."""
        client = self._started(1, charge_initial=True)
        for cost in (7.0, 3.0):
            report_cost(client, 0, cost)
            entry = spending(client).entries[0]
            assert (entry.reported_cost, entry.charged) == (cost, cost)
        for wrong in (-1.0, math.nan, "much"):
            with pytest.raises(UserInputError, match="cost"):
                report_cost(client, 0, wrong)  # type: ignore[arg-type]
        assert spending(client).spent == 3.0

    def test_realized_inputs(self) -> None:
        """The model learns from the inputs that a trial had, not from those that were planned."""
        client = self.client()
        first, second = self._ask(client), self._ask(client)
        planned = _arm(client, second)
        inputs = {n: v for n, v in self._inputs(planned, second).items() if n in self._names}
        cost = self.cost({**_arm(client, first), **inputs})
        complete_trial(client, first, self._outcomes(inputs), realized=inputs, cost=cost)
        problem = node_of(_strategy(client)).problem(_experiment(client))
        (trial,) = problem.observed
        assert {name: trial.inputs[name] for name in inputs} == inputs

    @property
    def _names(self) -> list[str]:
        hidden = self.method.traits.hidden
        return [p.name for p in self.parameters if p.name not in hidden]

    def test_a_missing_cost(self) -> None:
        """Where costs are learned, the next decision names the trial, until it is reported."""
        client = self._started(self.method.initial_trials - 1)
        index = self._ask(client)
        inputs = _arm(client, index)
        if self.cost(inputs) is None or self.realized(inputs, index):
            pytest.skip("costs are declared, or the trial is incomplete anyway")
        client.complete_trial(index, self._outcomes(inputs))
        with pytest.raises(UserInputError, match=rf"\[{index}\].*cost"):
            self._ask(client)
        report_cost(client, index, 1.5)
        assert spending(client).entries[index].charged == 1.5
        assert query(client, self._ask(client)).why

    def test_past_trials(self, run: _Run) -> None:
        """A table of them is free, ends the design, and is learned from."""
        rows = []
        for position in range(_FAILED):
            inputs = self._inputs(run.said[position]["parameters"], position)
            cost = self.cost(inputs)
            rows.append(
                {**inputs, **self._outcomes(inputs), **({} if cost is None else {"cost": cost})}
            )
        client, frame = self.client(initial_trials=2), pd.DataFrame(rows)
        if "attach_table" in self.refuses:
            with pytest.raises(UserInputError, match=self.refuses["attach_table"]):
                attach_table(client, frame)
            return
        for wrong, named in (
            (frame.drop(columns=_METRIC), _METRIC),
            (frame.assign(nobody=1.0), "nobody"),
            (frame.assign(**{_METRIC: [math.inf, *frame[_METRIC][1:]]}), "row 0"),
        ):
            with pytest.raises(UserInputError, match=named):
                attach_table(client, wrong)
            assert not _experiment(client).trials
        assert attach_table(client, frame) == list(range(len(rows)))
        assert spending(client).spent == 0.0
        assert recommend(client).expected_value
        assert decision_record(_experiment(client).trials[self._ask(client)])["phase"] == "rule"
        table, single = self.client(), self.client()
        attach_table(table, frame.head(2), charge=True)
        for position in range(2):
            self.complete(single, single.attach_trial(run.said[position]["parameters"]))
        assert spending(table).entries == spending(single).entries
        assert spending(table).spent > 0

    # The budget

    def test_a_budget_that_pays_for_nothing(self) -> None:
        """It is refused before anything is spent, by name."""
        if self._learns_costs:
            pytest.skip("no cost is known before the first trial")
        with pytest.raises((InputError, UserInputError), match="budget"):
            self._ask(self.client(budget=1e-9))

    @property
    def _learns_costs(self) -> bool:
        return self.simulation().ask().expected_cost is None  # type: ignore[union-attr]

    def test_a_run_ends_at_its_budget(self, run: _Run) -> None:
        """It says why and what to deploy, also after loading, and goes on with more budget."""
        budget = 1.02 * spending(run.client).entries[0].charged
        budget += sum(entry.charged for entry in spending(run.client).entries[1 : _RUNNING + 1])
        client, reason = self.client(budget=2 * budget), ""
        self.complete(client, self._ask(client))
        set_budget(client, budget)
        for _ in range((2 if self.method.traits.may_skip else 5) * _COUNT):
            try:
                index = self._ask(client)
            except OptimizationShouldStop as stop:
                reason = str(stop)
                break
            self.complete(client, index)
            if not query(client, index).measure:
                reason = "the run goes on without measurements"
        spent = spending(client)
        if not self._learns_costs:
            assert spent.spent <= budget * (1 + 1e-9)
        assert spent.remaining == pytest.approx(budget - spent.spent)
        assert reason
        for _ in range(0 if self.method.traits.may_skip else 2):
            with pytest.raises(OptimizationShouldStop) as again:
                self._ask(client)
            assert str(again.value) == reason
            path = run.folder / "ended.json"
            client.save_to_json_file(str(path))
            client = Client.load_from_json_file(str(path))
        for wrong in (-1.0, math.nan, 0.5 * spent.spent):
            with pytest.raises(UserInputError, match="budget"):
                set_budget(client, wrong)
        set_budget(client, 10 * budget)
        assert spending(client).budget == 10 * budget
        assert query(client, self._ask(client)).why

    def test_a_run_ends_at_its_price(self, tmp_path: Path) -> None:
        """Where no trial is worth its cost, also after loading, unless a trial is pending."""
        if not hasattr(self.method, "lmbda"):
            pytest.skip("the method has no price of a unit of cost")
        if "lmbda" in self.refuses:
            with pytest.raises((InputError, UserInputError), match=self.refuses["lmbda"]):
                self.client(lmbda=1e6)
            return
        client, reason = self.client(lmbda=1e6), ""
        for _ in range(5 * _COUNT):
            try:
                self.complete(client, self._ask(client))
            except OptimizationShouldStop as stop:
                reason = str(stop)
                break
        assert "Deploy" in reason
        client.save_to_json_file(str(tmp_path / "ended.json"))
        loaded = Client.load_from_json_file(str(tmp_path / "ended.json"))
        with pytest.raises(OptimizationShouldStop) as again:
            self._ask(loaded)
        assert str(again.value) == reason
        running = client.attach_trial(_arm(client, 0))
        with pytest.raises(DataRequiredError, match=rf"\[{running}\]"):
            self._ask(client)

    def test_without_an_initial_design(self) -> None:
        """The model decides from the first outcome on, also that of an attached trial."""
        client, other = self.client(initial_trials=0), self.client()
        first = _arm(other, self._ask(other))
        self.complete(client, client.attach_trial(first))
        assert _said(client, self._ask(client))["record"]["phase"] == "rule"

    def test_a_limit_of_a_trial(self, run: _Run) -> None:
        """No trial is expected to cost more than ``max_trial_cost``."""
        costs = [said["record"]["expected_cost"] for said in run.said]
        known = [cost for cost in costs if cost]
        limit = 1.001 * statistics.median(known) if len(set(known)) > 1 else 2 * known[0]
        _, decisions = self._simulated(self._few, max_trial_cost=limit)
        assert len(decisions) > self.method.initial_trials
        assert all((decision.expected_cost or 0.0) <= limit * (1 + 1e-6) for decision in decisions)

    def test_an_initial_design_may_be_free(self) -> None:
        """With ``charge_initial=False``."""
        count = self.method.initial_trials
        for charge in (False, True):
            simulation, _ = self._simulated(count, charge_initial=charge)
            assert (sum(entry.charged for entry in simulation.ledger) > 0) is charge
            assert all(entry.initial for entry in simulation.ledger)

    def test_spending(self, run: _Run) -> None:
        """The account adds up, and is that of the records."""
        found = spending(run.client)
        assert found.budget == self.method.budget
        assert found.spent == pytest.approx(math.fsum(e.charged for e in found.entries))
        assert found.reserved == 0.0
        assert len(found.to_frame()) == len(found.entries) == _COUNT
        assert f"Spent {found.spent:.6g}" in str(found)
        for entry, said in zip(found.entries, run.said, strict=True):
            record, inputs = said["record"], self._inputs(said["parameters"], entry.trial_index)
            assert entry.by_rule is (record["phase"] == "rule")
            if entry.status == "COMPLETED" and not entry.skipped:
                assert entry.reported_cost == self.cost(inputs)
            if entry.status == "COMPLETED" and entry.reported_cost is None and not entry.skipped:
                assert entry.charged == pytest.approx(record["expected_cost"])
                assert entry.switching_cost == pytest.approx(record.get("switching_cost", 0.0))
                declared = self.method.cost_at(said["parameters"])
                assert entry.charged - entry.switching_cost == pytest.approx(declared)
        assert found.switching_costs == math.fsum(e.switching_cost for e in found.entries)
        pending = Client.load_from_json_file(run.stored["json"])
        reserved = spending(pending).entries[_RUNNING]
        assert spending(pending).reserved == reserved.charged

    # What is said

    def test_records(self, run: _Run) -> None:
        """Each decision has its reason, its phase and its account, in finite numbers."""
        phases = [said["record"]["phase"] for said in run.said]
        assert phases == sorted(phases)
        assert phases.count("initial") >= 1
        assert phases[-1] == "rule"
        for said in run.said:
            record = said["record"]
            assert record["why"]
            assert all(math.isfinite(number) for number in _numbers(said))
            account = record["decision"]
            if self.method.budget is not None and "spent" in account:
                left = account["spent"] + account["remaining"]
                assert left == pytest.approx(self.method.budget)

    def test_query(self, run: _Run) -> None:
        """It says what to set, what that costs, and why."""
        for index, said in enumerate(run.said):
            found = query(run.client, index)
            assert found.why == said["record"]["why"]
            assert found.controlled.items() <= said["parameters"].items()
            assert found.expected_cost == said["record"]["expected_cost"]
            assert json.loads(json.dumps(found.to_dict()))["trial_index"] == index
            assert sum(candidate.chosen for candidate in found.candidates) == 1
            assert len(found.to_frame()) == len(found.candidates)
            assert str(found).startswith(f"Trial {index}: set ")
        with pytest.raises(UserInputError, match="trial_index"):
            query(run.client, _COUNT)

    def test_recommend(self, run: _Run) -> None:
        """Alternatives are in order; a limit of the cost leaves out what costs more."""
        best = recommend(run.client)
        assert math.isfinite(best.expected_value)
        assert best.standard_deviation >= 0
        assert "expected value" in str(best)
        costs = [c.expected_cost for c in (best, *best.alternatives) if c.expected_cost is not None]
        if costs:
            limit = statistics.median_low(costs)
            within = recommend(run.client, max_cost=limit)
            assert within.expected_cost is not None
            assert within.expected_cost <= limit * (1 + 1e-9)
        with pytest.raises(UserInputError, match="max_cost"):
            recommend(run.client, max_cost=1e-12 if costs else 1.0)
        with pytest.raises(UserInputError, match="no data"):
            recommend(self.client())
        assert recommend(_parts(run.client)) == best

    def test_analyses(self, run: _Run) -> None:
        """Every card is computed, before there are data, too."""
        for client in (self.client(), run.client):
            cards = overview(client, run.folder / "cards.html")
            assert cards
            assert not [card for card in cards if isinstance(card, ErrorAnalysisCard)]
        assert (run.folder / "cards.html").stat().st_size > 1000

    def test_should_stop(self, run: _Run) -> None:
        """It gives its verdict with a reason; or it is refused with the reason."""
        before = _experiment(run.client).data.df.copy()
        arguments: dict[str, Any] = (
            {} if hasattr(self.method, "stop") else {"cost": 1.0, "lmbda": 1e-3}
        )
        if "should_stop" in self.refuses:
            with pytest.raises(UnsupportedError, match=self.refuses["should_stop"]):
                should_stop(run.client, **arguments)
        else:
            found = should_stop(run.client, **arguments)
            assert found.reason.endswith(".")
            assert str(found).startswith("Stop" if found.stop else "Go on")
        assert _experiment(run.client).data.df.equals(before)

    def test_predictions_of_ax(self, run: _Run) -> None:
        """They are the model's; or they are refused with the reason."""
        points = [said["parameters"] for said in run.said[:2]]
        if "predict" in self.refuses:
            with pytest.raises((UserInputError, UnsupportedError), match=self.refuses["predict"]):
                run.client.predict(points)
            return
        for predicted in run.client.predict(points):
            assert all(math.isfinite(number) for number in predicted[_METRIC])

    # Experiments that no method takes

    def test_experiments_that_no_method_takes(self) -> None:
        """A sum of metrics, and two arms in a trial, are refused before a trial."""
        client = self.client()
        with pytest.raises(UnsupportedError, match="takes one arm"):
            _strategy(client).gen(experiment=_experiment(client), n=2)
        several = f"{_METRIC}, other"
        is_refused = self.method.traits.refuses_objectives is not None
        for objective in (f"{_METRIC} + other", *([several] if is_refused else [])):
            client.configure_optimization(objective=objective)
            with pytest.raises(UnsupportedError, match="objective"):
                self._ask(client)
        assert not _experiment(client).trials

    def test_bad_settings(self) -> None:
        """Each is refused by the name of the argument."""
        cases: dict[str, Sequence[Any]] = {
            "budget": (-1.0, 0.0, math.nan, "much"),
            "max_trial_cost": (-1.0, math.inf),
            "charge_initial": ("yes",),
            "initial_trials": (-1, 2.5),
            "seed": (-1, 1.5),
            "feasibility_threshold": (0.0, 1.5),
            "num_restarts": (0,),
            "raw_samples": (0,),
            "winsorize": (None,),
        }
        method = self.method
        assert {each.name for each in fields(method)} >= cases.keys()
        for name, values in cases.items():
            for value in values:
                with pytest.raises(InputError, match=name):
                    strategy_of(replace(method, **{name: value}))
