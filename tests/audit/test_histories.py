"""Random configurations and histories: what has to hold whatever a user does, and in any order."""

from __future__ import annotations

import logging
import math
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from ax.api.client import Client
from ax.core.trial_status import TrialStatus
from ax.exceptions.core import DataRequiredError, OptimizationShouldStop, UserInputError
from hypothesis import HealthCheck, Phase, given, note, reject, settings
from hypothesis import strategies as st

import ax_costaware as ac
from ax_costaware.ax_bridge.records import decision_record, is_excluded
from ax_costaware.testing import MethodContract
from tests.contract import test_averages as averages
from tests.contract import test_control_sets as control_sets
from tests.contract import test_cost_aware as cost_aware
from tests.contract import test_costly_feedback as costly_feedback
from tests.contract import test_fidelity as fidelity
from tests.contract import test_fronts_and_batches as fronts_and_batches

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::botorch.exceptions.warnings.BotorchWarning"),
    pytest.mark.filterwarnings("ignore:.*is in out-of-design:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore:.*Optimization failed:RuntimeWarning"),
]

EVENTS = (
    *("run", "run", "run", "ask", "ask three", "complete", "complete", "complete in Ax"),
    *("fail", "abandon", "late cost", "exclude", "repeat", "refused", "wrong", "store", "store"),
)
HISTORIES = st.lists(
    st.tuples(st.sampled_from(EVENTS), st.integers(0, 99)), min_size=6, max_size=14
)
SMALL = 1e-9
"""Relative rounding of a budget."""


CONTRACTS = {
    "cost-aware": (cost_aware.TestCostAware, cost_aware.TestCostAwareMixed),
    "learned costs": (cost_aware.TestLearnedCosts, fronts_and_batches.TestSwitchingCosts),
    "Gittins": (cost_aware.TestGittins, cost_aware.TestGittinsDecay),
    "fidelities": (fidelity.TestFidelity,),
    "control sets": (control_sets.TestControlSets, control_sets.TestControlSetsMixed),
    "costs of values": (control_sets.TestCostsOfValues, control_sets.TestExploreThenCommit),
    "unknown costs": (control_sets.TestUnknownCosts, control_sets.TestPublishedUnknownCosts),
    "costly feedback": (
        costly_feedback.TestCostlyFeedback,
        costly_feedback.TestCostlyFeedbackLearnedCosts,
    ),
    "indirect queries": (averages.TestIndirectQueries, averages.TestLearnedConditional),
    "resolution tree": (averages.TestResolutionTree,),
}
SETTINGS: dict[str, tuple[Any, ...]] = {
    "initial_trials": (1, 2, 3),
    "charge_initial": (False, True),
    "seed": (0, 1, 2),
    "affordable_only": (False, True),
    "initial_design": ("sobol", "uniform"),
    "cost_model": ("gp", "linear", "trend"),
    "stop": (False, True),
    "share": (1.0, 0.2, 0.05),
}
"""What is drawn of the fields that a method has; of its budget a share."""


def drawn(data: st.DataObject, contract: MethodContract) -> dict[str, Any]:
    """Draw settings of a contract's method."""
    method, names = contract.method, {field.name for field in fields(contract.method)}
    found = {
        name: data.draw(st.sampled_from(values), label=name)
        for name, values in SETTINGS.items()
        if name in names or name == "share"
    }
    budget = (method.budget or 1.0) * found.pop("share")
    return {**found, "budget": budget}


class History:
    """An experiment, and what happens to it."""

    def __init__(self, contract: MethodContract, settings: Mapping[str, Any]) -> None:
        self.contract, self.budget = contract, settings["budget"]
        try:
            self.client: Client = contract.client(**settings)
            self.client.get_next_trials(max_trials=1)
        except UserInputError as refused:
            note(f"refused before anything is paid: {refused}")
            reject()
        self.unreported: list[int] = []
        """Trials that Ax's own call has completed, without what the method needs."""

    def happen(self, event: str, number: int) -> None:
        """An event, to a trial by its number among those that it can happen to."""
        running = self._with({TrialStatus.RUNNING})
        known = self._with(set(TrialStatus))
        ended = self._with({TrialStatus.FAILED, TrialStatus.ABANDONED, TrialStatus.COMPLETED})
        match event:
            case "run":
                for index in self.ask(1):
                    self.complete(index, number)
            case "ask":
                self.ask(1)
            case "ask three":
                self.ask(3)
            case "store":
                self.store(resume=number % 2 == 0)
            case "repeat" if known:
                arm = self._arm(known[number % len(known)])
                self.complete(self.client.attach_trial(parameters=arm), number)
            case "wrong" if self._trials:
                self.attach_wrong(number)
            case "late cost" if ended:
                ac.report_cost(self.client, ended[number % len(ended)], self.cost(number))
            case "exclude" if self._trials:
                ac.exclude_trial(self.client, number % len(self._trials), "drawn")
            case _ if running:
                self._to_running(event, running[number % len(running)], number)

    def _to_running(self, event: str, index: int, number: int) -> None:
        match event:
            case "complete":
                self.complete(index, number)
            case "complete in Ax":
                self.client.complete_trial(index, raw_data=self.outcome(index))
                self.unreported.append(index)
            case "fail":
                self.client.mark_trial_failed(index)
            case "abandon":
                self.client.mark_trial_abandoned(index)
            case "refused":
                with pytest.raises(UserInputError):
                    ac.complete_trial(self.client, index, {"objective": math.nan})
                with pytest.raises(UserInputError):
                    ac.complete_trial(
                        self.client, index, {"objective": 1.0}, {"no input": 1.0}, cost=-1.0
                    )
                assert self._trials[index].status is TrialStatus.RUNNING

    def ask(self, count: int) -> list[int]:
        """Ask for trials; none where the strategy stops, or until a trial is mended."""
        try:
            found = self.decide(self.client, count)
        except OptimizationShouldStop:
            return []
        except DataRequiredError as wanted:
            # All that was measured may have been left out.
            if not self._with({TrialStatus.RUNNING}) and "attach one" not in str(wanted):
                raise
            return []
        except UserInputError as refused:
            # Only what Ax was told without what the method needs, and there is a way out.
            note(f"refused: {refused}")
            if not self.unreported:
                raise
            for index in self.unreported:
                self.mend(index)
            self.unreported = []
            return self.ask(count)
        return found

    def decide(self, client: Client, count: int = 1) -> list[int]:
        """Ask a client, and look at what it says."""
        found = client.get_next_trials(max_trials=count)
        for index, arm in found.items():
            record = decision_record(client._experiment.trials[index])
            assert record["why"]
            for number in numbers([dict(arm), record]):
                assert math.isfinite(number), (arm, record)
        told, budget = ac.spending(client), self.budget
        assert all(math.isfinite(entry.charged) for entry in told.entries)
        if not self.learns_costs and any(told.entries[index].charged for index in found):
            # What the user attaches, or reports to have cost more, may pass it; a decision may not.
            assert told.spent <= budget * (1 + SMALL), told
        return list(found)

    def complete(self, index: int, number: int) -> None:
        """Report a trial as its method wants it."""
        if not ac.query(self.client, index).measure:
            ac.complete_trial(self.client, index)
            return
        outcome: dict[str, Any] = dict(self.outcome(index))
        if number % 5 == 0:
            outcome["objective"] = outcome["objective"], 0.1
        cost = self.cost(number) if self.learns_costs else None
        ac.complete_trial(self.client, index, outcome, self.realized(index) or None, cost=cost)

    def mend(self, index: int) -> None:
        """Add what Ax's call did not say, or leave the trial out."""
        realized = self.realized(index)
        if realized:
            cost = 0.5 if self.learns_costs else None
            ac.complete_trial(self.client, index, realized=realized, cost=cost)
        elif self.learns_costs:
            ac.report_cost(self.client, index, 0.5)

    def attach_wrong(self, number: int) -> None:
        """A trial that is none of this space, which the next decision may refuse by name."""
        arm = self._arm(0)
        names = [name for name, value in arm.items() if isinstance(value, float)]
        if "control_set" in arm and number % 2:
            arm["control_set"] = "none of them"
        elif names:
            arm[names[number % len(names)]] = math.nan
        try:
            index = self.client.attach_trial(parameters=arm)
        except (UserInputError, ValueError):
            return  # Ax may refuse it itself
        try:
            self.decide(self.client)
        except (OptimizationShouldStop, DataRequiredError):
            pass
        except UserInputError as refused:
            if not self.unreported and f"exclude_trial(client, {index})" not in str(refused):
                raise
        ac.exclude_trial(self.client, index, "wrong")

    def store(self, resume: bool) -> None:
        """What is loaded decides as the running experiment does."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "stored.json")
            self.client.save_to_json_file(str(path))
            ac.check_json_file(path)
            loaded = Client.load_from_json_file(str(path))
        assert said_of(self, self.client) == said_of(self, loaded)
        if resume:
            self.client = loaded

    def end(self) -> None:
        """It can go on: what is running ends, and the next trial comes, or a stop with a reason."""
        for index in self._with({TrialStatus.RUNNING}):
            self.complete(index, index)
        self.ask(1)
        if any(t.status.is_completed for t in self._trials.values()):
            for number in numbers(self.recommended()):
                assert math.isfinite(number)

    def recommended(self) -> list[Any]:
        """What is recommended; nothing where nothing was measured."""
        try:
            best = ac.recommend(self.client)
        except UserInputError as refused:
            note(f"nothing is recommended: {refused}")
            return []
        return [dict(best.parameters), best.expected_value, best.standard_deviation]

    def outcome(self, index: int) -> dict[str, float]:
        inputs = {**self._arm(index), **self.realized(index)}
        sign = -1.0 if self.contract.minimize else 1.0
        return {"objective": sign * self.contract.outcome(inputs)}

    def realized(self, index: int) -> dict[str, Any]:
        """What the inputs turned out to be that a control set leaves to chance."""
        return dict(self.contract.realized(self._arm(index), index))

    @property
    def learns_costs(self) -> bool:
        return self.contract.cost({**self._arm(0), **self.realized(0)}) is not None

    def cost(self, number: int) -> float:
        """What a trial cost, over some orders of magnitude; within the range of each contract."""
        return 10.0 ** (number % 4 - 3)

    @property
    def _trials(self) -> dict[int, Any]:
        return dict(self.client._experiment.trials)

    def _arm(self, index: int) -> dict[str, Any]:
        return dict(self._trials[index].arms[0].parameters)

    def _with(self, statuses: set[TrialStatus]) -> list[int]:
        return [
            index
            for index, trial in self._trials.items()
            if trial.status in statuses and not is_excluded(trial)
        ]


def numbers(value: Any) -> Iterator[float]:
    """All numbers in what is stored."""
    if isinstance(value, float):
        yield value
    elif isinstance(value, Mapping):
        yield from numbers(list(value.values()))
    elif isinstance(value, list | tuple):
        for part in value:
            yield from numbers(part)


def said_of(history: History, client: Client) -> Any:
    """The next decision, or why there is none."""
    try:
        (index,) = history.decide(client)
    except (OptimizationShouldStop, UserInputError, DataRequiredError) as error:
        return type(error), str(error)
    trial = client._experiment.trials[index]
    return index, dict(trial.arms[0].parameters), decision_record(trial)


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Thousands of lines of Ax's log are kept back."""
    logging.disable(logging.WARNING)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("method", CONTRACTS)
@settings(
    max_examples=15,
    deadline=None,
    derandomize=True,
    phases=[Phase.generate],  # to make a failing history shorter takes minutes
    print_blob=False,
    suppress_health_check=list(HealthCheck),
)
@given(data=st.data())
def test_history(method: str, data: st.DataObject) -> None:
    contract = data.draw(st.sampled_from(CONTRACTS[method]), label="contract")()
    history = History(contract, drawn(data, contract))
    for event, number in data.draw(HISTORIES):
        note(f"{event} {number}")
        history.happen(event, number)
    history.end()
