"""The loop: what it asks, what it is told, what it refuses, and what it stores."""

from __future__ import annotations

import json
import math
import pickle
from typing import Any

import numpy as np
import pytest
import torch
from gpytorch.kernels import MaternKernel, PeriodicKernel, RBFKernel
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from ax_costaware.exceptions import InputError, UnsupportedInputError
from ax_costaware.methods import (
    BernoulliRule,
    CostlyFeedbackLoop,
    FeedbackRule,
    FiniteDomainBeta,
    FullFeedback,
    LCBUCBRule,
    LogarithmicBeta,
    MeasurementChoice,
    MeasurementRule,
    MixedRule,
    Prospect,
    ResetEvery,
)
from ax_costaware.methods.costly_feedback.learned_model import learned_model
from ax_costaware.models import IndependentKernel

GRID = np.linspace(0, 1, 60)


def matern(lengthscale: float = 0.2) -> MaternKernel:
    kernel = MaternKernel(nu=1.5).double()
    kernel.lengthscale = lengthscale
    return kernel


def known(**arguments: Any) -> CostlyFeedbackLoop:
    """A loop whose model is given."""
    given = {"candidates": GRID, "kernel": matern(), "forgetting": 0.02, "noise": 0.01}
    return CostlyFeedbackLoop(**{**given, **arguments})


def drifting(x: float, t: int) -> float:
    return math.sin(6 * x + 0.02 * t)


def play(
    loop: CostlyFeedbackLoop, rounds: int, noise: float = 0.1, seed: int = 0
) -> list[tuple[float, bool]]:
    generator = np.random.default_rng(seed)
    found = []
    for _ in range(rounds):
        x, measure, _ = loop.ask()
        found.append((float(np.sum(x)), measure))
        value = drifting(float(np.sum(x)), loop.round) + noise * generator.standard_normal()
        if measure:
            loop.tell(value)
        else:
            loop.skip()
    return found


def test_the_point_has_the_largest_upper_confidence_bound() -> None:
    """Against the formulas of the paper, section 3.1, with the rule's probability beside them."""
    loop = known(beta=3.0, rule=MeasurementRule(0.8), forgetting=0.005)
    told: list[tuple[float, int, float]] = []
    points = torch.tensor(GRID).unsqueeze(-1)
    with torch.no_grad():
        prior = matern()(points).to_dense().numpy()
    for t in range(1, 60):
        x, measure, reason = loop.ask()
        if told:
            index = np.array([np.flatnonzero(x == GRID)[0] for x, _, _ in told])
            times, values = np.array([t for _, t, _ in told]), np.array([y for *_, y in told])
            decay = 0.995 ** (np.abs(times[:, None] - times) / 2)
            cross = prior[index] * (0.995 ** ((t - times) / 2))[:, None]
            solved = np.linalg.solve(
                prior[np.ix_(index, index)] * decay + 0.01 * np.eye(len(index)), cross
            )
            mean, covariance = solved.T @ values, prior - cross.T @ solved
            deviation = np.sqrt(covariance.diagonal())
            ucb = mean + math.sqrt(3.0) * deviation
            best = int(np.flatnonzero(x == GRID)[0])
            if told[-1][1] == t - 1:
                assert ucb[best] == pytest.approx(ucb.max(), abs=1e-9)
            # Without a new measurement a point is kept while only its like are better.
            assert (prior[best][ucb > ucb[best] + 1e-9] >= 0.8).all()
            far = prior[best] < 0.8
            spread = (covariance[best, best] + covariance.diagonal() - 2 * covariance[best])[far]
            least = ((mean[best] - mean[far]) / np.sqrt(spread)).min()
            probability = 0.5 * math.erfc(-least / math.sqrt(2))
            assert measure == (probability < 0.8)
            assert f"{probability:.3g}" in reason
        if measure:
            value = drifting(float(x), t)
            told.append((float(x), t, value))
            loop.tell(value)
        else:
            loop.skip()
    assert 5 < len(told) < 59


@pytest.mark.parametrize(("quotas", "bandwidth"), [((0, 200), 0.1), ((20, 120), 0.6)])
def test_the_exact_setting_is_algorithm_1(quotas: tuple[int, int], bandwidth: float) -> None:
    """Transcribed line by line, on local optima without those near a better one (appendix E.1)."""
    T, kappa = 200, 0.8
    B1, B2 = quotas
    single = MeasurementRule(kappa, "local_optima_only", joint=False, bandwidth=bandwidth)
    rule = MixedRule(single, B1 / T, B2 / T, reach_upper=False)
    beta = FiniteDomainBeta(len(GRID), 0.5)
    loop = known(rule=rule, beta=beta, keep_point=False, forgetting=0.03, seed=5)
    rho = math.sqrt(1 - 0.03)
    with torch.no_grad():
        k = matern()(torch.tensor(GRID).unsqueeze(-1)).to_dense().numpy()
    S: list[tuple[int, float, int]] = []
    alone = 0
    for t in range(1, T + 1):
        x, measure, _ = loop.ask()
        mu, sigma = np.zeros(len(GRID)), np.ones(len(GRID))
        if S:
            at, y, h = (np.array(column) for column in zip(*S, strict=True))
            K = k[np.ix_(at, at)] * rho ** np.abs(h[:, None] - h) + 0.01 * np.eye(len(S))
            cross = k[at] * rho ** (t - h)[:, None]
            mu = cross.T @ np.linalg.solve(K, y)
            sigma = np.sqrt(1 - (cross * np.linalg.solve(K, cross)).sum(axis=0))
        ucb = mu + math.sqrt(beta(t)) * sigma
        x_t = int(np.flatnonzero(x == GRID)[0])
        assert ucb[x_t] == pytest.approx(ucb.max(), abs=1e-9)  # line 3
        padded = np.concatenate([[-np.inf], ucb, [-np.inf]])
        kept = [x_t]
        for i in sorted(range(len(GRID)), key=lambda i: -ucb[i]):
            is_top = ucb[i] >= max(padded[i], padded[i + 2])
            if is_top and all(abs(GRID[i] - GRID[j]) > bandwidth for j in kept):
                kept.append(i)
        alone += len(kept) == 1
        z = (mu[x_t] - mu[kept[1:]]) / np.hypot(sigma[x_t], sigma[kept[1:]])
        draw = np.random.default_rng((5, t)).random
        m_t = draw() < B1 / T  # line 4
        assert measure == (m_t or (bool((norm.cdf(z) < kappa).any()) and draw() < (B2 - B1) / T))
        if measure:
            S.append((x_t, drifting(float(x), t), t))
            loop.tell(S[-1][1])
        else:
            loop.skip()
    assert 0 < len(S) < T
    assert alone > 0 or bandwidth < 0.5


@pytest.mark.parametrize("call", ["tell", "skip"])
def test_a_round_is_closed_once(call: str) -> None:
    loop = known()
    arguments = [0.5] if call == "tell" else []
    with pytest.raises(InputError, match=f"{call} before ask: round 1"):
        getattr(loop, call)(*arguments)
    loop.ask()
    getattr(loop, call)(*arguments)
    with pytest.raises(InputError, match=f"{call} before ask: round 2"):
        getattr(loop, call)(*arguments)


@pytest.mark.parametrize("y", [math.nan, math.inf, -math.inf, None, "1.0", [1.0], True])
def test_a_bad_measurement_changes_nothing(y: Any) -> None:
    loop = known()
    play(loop, 12)
    asked, stored = loop.ask(), loop.to_dict()
    with pytest.raises(InputError, match="y="):
        loop.tell(y)
    assert loop.ask() == asked
    assert loop.to_dict() == stored
    loop.tell(0.5)
    assert loop.round == 14


def test_measurements_may_be_tensors() -> None:
    loop, other = known(), known()
    for y in (torch.tensor(0.5), np.array(-0.25), torch.tensor(1), np.float32(0.25), 1e100):
        assert loop.ask() == other.ask()
        loop.tell(y)
        other.tell(float(y))
    loop.ask()
    for bad in (torch.tensor(math.nan), torch.tensor([1.0]), np.array([1.0]), 1e101):
        with pytest.raises(InputError, match="y="):
            loop.tell(bad)


@pytest.mark.parametrize("unit", [1e12])
@pytest.mark.filterwarnings("ignore::botorch.exceptions.warnings.OptimizationWarning")
def test_what_is_learned_does_not_depend_on_the_unit_of_outcomes(unit: float) -> None:
    loops = [CostlyFeedbackLoop(GRID, rule=FullFeedback()) for _ in range(2)]
    for t in range(12):
        for loop, scale in zip(loops, (1.0, unit), strict=True):
            loop.tell(scale * drifting(float(loop.ask().x), t))
    assert loops[1].model.outputscale == pytest.approx(unit**2 * loops[0].model.outputscale)
    assert loops[1].ask().x == loops[0].ask().x


def test_a_measurement_counts_once_if_the_fit_is_interrupted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupted(**arguments: Any) -> None:
        raise KeyboardInterrupt

    loop = CostlyFeedbackLoop(GRID)
    play(loop, 7)
    monkeypatch.setattr("ax_costaware.methods.costly_feedback.loop.learned_model", interrupted)
    loop.ask()
    with pytest.raises(KeyboardInterrupt):
        loop.tell(0.5)
    assert (loop.round, loop.num_measured, len(loop.to_dict()["history"])) == (9, 8, 8)


@pytest.mark.parametrize(
    "rule", [MeasurementRule(0.6), MeasurementRule(0.6, "local_optima"), LCBUCBRule()]
)
@pytest.mark.parametrize("first", [0, 30])
def test_never_stops_measuring_for_ever(rule: FeedbackRule, first: int) -> None:
    """The trap: with a single local optimum the paper's rule has no rival left, ever."""
    # A smooth kernel, for which few points or none are uncorrelated, told that one point is best.
    loop = known(kernel=matern(3.0), rule=rule, candidates=GRID)
    loop.ask()
    loop.tell(2.0)
    last = 0
    for _ in range(1000):
        if loop.ask().measure:
            last = loop.round
            loop.tell(2.0)
        else:
            loop.skip()
    assert last > 700


def test_resets_forget_everything_and_nothing_between() -> None:
    loop = known(forgetting=ResetEvery(10), rule=FullFeedback())
    play(loop, 10)
    assert not loop.to_dict()["history"]
    stored = known(forgetting=ResetEvery(10), rule=FullFeedback()).to_dict()
    fresh = CostlyFeedbackLoop.from_dict({**stored, "round": 11})
    assert loop.ask() == fresh.ask()
    play(loop, 9)
    assert len(loop.to_dict()["history"]) == 9
    assert loop.model.forgetting == 0


@pytest.mark.filterwarnings("ignore::botorch.exceptions.warnings.OptimizationWarning")
def test_what_is_learned_outlives_a_reset() -> None:
    """The 16th measurement is the first of its block, and tells nothing by itself."""
    loop = CostlyFeedbackLoop(GRID, forgetting=ResetEvery(15), rule=FullFeedback())

    def tell(rounds: int) -> None:
        for _ in range(rounds):
            loop.tell(10 * math.sin(6 * float(loop.ask().x)) + 100)

    tell(15)
    fresh = CostlyFeedbackLoop.from_dict(json.loads(json.dumps(loop.to_dict())))
    assert fresh.ask() == loop.ask()
    tell(1)
    assert loop.model.noise < 0.1
    assert loop.model.outputscale > 20
    fresh.tell(10 * math.sin(6 * float(fresh.ask().x)) + 100)
    assert fresh.to_dict() == loop.to_dict()
    # What is known of the function is of the block.
    assert loop.ask() == fresh.ask()
    assert "probability 0.5," not in loop.ask().reason
    copy = pickle.loads(pickle.dumps(loop))
    assert play(copy, 5) == play(loop, 5)


def test_blocks_are_learned_from_as_draws_of_their_own() -> None:
    """Outcomes that change from block to block only are no noise."""
    random = np.random.default_rng(0)
    x, block = random.uniform(size=60), np.repeat([0, 1, 2], 20)
    values = np.sin(6 * x + 2.0 * block)
    found = [
        learned_model(x[:, None], 1.0 + np.arange(60), values, None, forgetting, None, 0)
        for forgetting in (ResetEvery(20), ResetEvery(60))
    ]
    assert [model.forgetting for model in found] == [0.0, 0.0]
    assert found[0].noise < 0.01 < 0.1 < found[1].noise


def test_candidates_may_have_several_coordinates() -> None:
    points = np.stack(np.meshgrid(np.linspace(-1, 1, 7), np.linspace(0, 50, 6)), -1).reshape(-1, 2)
    kernel = RBFKernel(ard_num_dims=2).double()
    kernel.lengthscale = torch.tensor([0.5, 12.0])
    for rule in (MeasurementRule(0.9), MeasurementRule(0.9, "local_optima", joint=False)):
        loop = CostlyFeedbackLoop(points, kernel=kernel, forgetting=0.005, noise=1e-3, rule=rule)
        for _ in range(80):
            x, measure, _ = loop.ask()
            assert x.shape == (2,)
            x_copy = x.copy()
            x += 100.0  # What the user does with the answer is no concern of the loop.
            if measure:
                loop.tell(-(x_copy[0] ** 2) - ((x_copy[1] - 30) / 25) ** 2)
            else:
                loop.skip()
        x = loop.ask().x
        assert abs(x[0]) < 0.4
        assert abs(x[1] - 30) < 11


@pytest.mark.filterwarnings("ignore::botorch.exceptions.warnings.OptimizationWarning")
def test_what_is_not_given_is_learned() -> None:
    loop = CostlyFeedbackLoop(GRID * 40 - 7, rule=FullFeedback(), seed=1)
    generator = np.random.default_rng(0)
    quality = []
    for t in range(80):
        x = float(loop.ask().x)
        assert ("the model is learned" in loop.ask().reason) == (t < 8)
        quality.append(math.sin((x + 7) / 8 + 0.005 * t))
        loop.tell(1000 + 50 * quality[-1] + 5 * generator.standard_normal())
    # The noise variance is 25, the outcomes range from 950 to 1050.
    assert 12 < loop.model.noise < 50
    assert 950 < loop.model.mean < 1050
    assert loop.model.forgetting < 0.02
    assert np.mean(quality[60:]) > 0.85


def test_a_rate_that_is_learned_is_watched() -> None:
    """A rate that was learned too small could not be found out without a measurement."""
    assert known().to_dict()["rule"] == known(rule=MeasurementRule(0.9)).to_dict()["rule"]
    watched = MixedRule(MeasurementRule(0.9), lower=0.1, upper=1.0)
    assert known(forgetting=None).to_dict()["rule"] == known(rule=watched).to_dict()["rule"]


RULES = [
    MeasurementRule(0.8),
    MixedRule(
        MeasurementRule(0.8, "local_optima_only", joint=False, bandwidth=0.1),
        *(0.1, 0.8),
        reach_upper=False,
    ),
    MeasurementRule(0.8, "local_optima", joint=False),
    LCBUCBRule(),
    MixedRule(MeasurementRule(0.9), 0.1, 0.8),
    BernoulliRule(0.5),
    FullFeedback(),
]


@settings(max_examples=20, deadline=None)
@given(
    rule=st.sampled_from(RULES),
    forgetting=st.sampled_from([0.01, 0.3, ResetEvery(7)]),
    rounds=st.integers(0, 60),
    asked=st.booleans(),
    beta=st.sampled_from([None, 1.5, LogarithmicBeta(1.0, 2.0), FiniteDomainBeta(60)]),
    keep_point=st.booleans(),
)
def test_a_stored_loop_goes_on_as_if_nothing_had_happened(
    rule: FeedbackRule, forgetting: Any, rounds: int, asked: bool, beta: Any, keep_point: bool
) -> None:
    loop = known(rule=rule, forgetting=forgetting, beta=beta, seed=3, keep_point=keep_point)
    play(loop, rounds)
    if asked:
        loop.ask()
    copy = CostlyFeedbackLoop.from_dict(json.loads(json.dumps(loop.to_dict())))
    pickled = pickle.loads(pickle.dumps(loop))
    assert not any(parameter.requires_grad for parameter in copy.model.kernel.parameters())
    assert copy.to_dict() == loop.to_dict()
    assert copy.ask() == loop.ask() == loop.ask() == pickled.ask()
    assert play(copy, 30, seed=1) == play(loop, 30, seed=1) == play(pickled, 30, seed=1)


@pytest.mark.parametrize("kernel", [matern(), RBFKernel().double()])
def test_one_lengthscale_of_several_coordinates_is_stored(kernel: MaternKernel | RBFKernel) -> None:
    points = np.random.default_rng(0).uniform(size=(40, 2))
    loop = known(candidates=points, kernel=kernel)
    play(loop, 5)
    copy = CostlyFeedbackLoop.from_dict(json.loads(json.dumps(loop.to_dict())))
    assert play(copy, 5, seed=1) == play(loop, 5, seed=1)


@pytest.mark.parametrize(
    "changes",
    [{"kernel": 3}, {"rule": {"type": "Other"}}, {"model": {}}, {"history": [[99, 1, 0.5]]}],
)
def test_what_no_loop_stored_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="stored"):
        CostlyFeedbackLoop.from_dict({**known().to_dict(), **changes})
    with pytest.raises(InputError, match="round='a'"):
        CostlyFeedbackLoop.from_dict({**known().to_dict(), "round": "a"})


class OwnRule(FeedbackRule):
    """A rule of the user's."""

    def decide(self, prospect: Prospect) -> MeasurementChoice:
        """Measure."""
        return MeasurementChoice(True, "always")


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"rule": OwnRule()}, "rule="),
        ({"rule": MixedRule(OwnRule(), 0.1, 0.5)}, "rule="),
        ({"kernel": PeriodicKernel()}, "kernel="),
        ({"kernel": MaternKernel(active_dims=(0,))}, "kernel=.*active_dims"),
    ],
)
def test_what_cannot_be_stored_is_said(arguments: dict[str, Any], name: str) -> None:
    loop = known(**arguments)
    loop.ask()
    loop.tell(1.0)
    with pytest.raises(UnsupportedInputError, match=f"cannot be stored: {name}"):
        loop.to_dict()


BAD: dict[str, list[Any]] = {
    "candidates": [
        [0.5],
        [[0.1, 0.2]],
        [],
        [0.1, 0.5, 0.1],
        [[0, 1], [1, 1], [0, 1]],
        [0.1, math.nan],
        [[0.1, 0], [math.inf, 1]],
        "abc",
        [[1, 2], [3]],
        [1j, 2],
        ["1", "2"],
        [-1e308, 1e308],
        np.zeros((2, 2, 2)),
        None,
    ],
    "bounds": [[[0.0], [1.0]]],
    "kernel": [
        "matern",
        RBFKernel(ard_num_dims=2),
        RBFKernel(active_dims=(3,)),
        RBFKernel(batch_shape=torch.Size([2])),
    ],
    "forgetting": [0.0, 1.0, math.nan],
    "noise": [0.0, -1],
    "rule": [0.9],
    "beta": [-1.0, "log"],
    "seed": [-1, 0.5],
    "keep_point": [1],
}


@pytest.mark.parametrize(("name", "value"), [(n, x) for n, values in BAD.items() for x in values])
def test_bad_arguments_are_named(name: str, value: Any) -> None:
    with pytest.raises(InputError, match=rf"(^|, ){name}\b"):
        known(**{name: value})


def test_arguments_that_do_not_fit_together() -> None:
    with pytest.raises(InputError, match="kernel=IndependentKernel"):
        known(kernel=IndependentKernel(), candidates=None, bounds=[[0.0], [1.0]])
    with pytest.raises(InputError, match="forgetting=ResetEvery"):
        known(forgetting=ResetEvery(5), noise=None)
    for rounds in (0, -1, 1.5, True):
        with pytest.raises(InputError, match="rounds="):
            ResetEvery(rounds)  # type: ignore[arg-type]


def test_a_long_run_has_bounded_memory() -> None:
    loop = known(candidates=[0.0, 0.5, 1.0], forgetting=0.05, rule=FullFeedback())
    for _ in range(2_000):
        loop.ask()
        loop.tell(0.1)
    assert len(loop.to_dict()["history"]) < 1_500


@pytest.mark.filterwarnings("ignore::botorch.exceptions.warnings.OptimizationWarning")
def test_what_is_given_is_not_learned() -> None:
    kernel = matern()
    loop = CostlyFeedbackLoop(GRID, kernel=kernel, forgetting=0.03, rule=FullFeedback())
    play(loop, 20)
    assert loop.model.forgetting == 0.03
    assert float(loop.model.kernel.lengthscale) == pytest.approx(0.2)
    assert loop.model.noise != 0.01
    loop = CostlyFeedbackLoop(GRID, forgetting=ResetEvery(30), noise=0.02, rule=FullFeedback())
    play(loop, 20)
    assert (loop.model.forgetting, loop.model.noise) == (0, pytest.approx(0.02))


def test_many_candidates_decide_as_a_part_of_them() -> None:
    """Of so many no covariance matrix is kept."""
    grid = np.linspace(0, 1, 5_001)
    many, few = known(candidates=grid), known(candidates=grid[::5])
    for loop in (many, few):
        play(loop, 30)
    assert abs(float(many.ask().x) - float(few.ask().x)) < 0.05
