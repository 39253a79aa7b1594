"""How long one decision takes, how much memory, and how good it is.

One decision is the choice of the best values of all seven control sets with 100 observations, the
work that the authors' published code needs 10 to 18 CPU seconds for on the same kind of machine.
Speed counts only with quality, so the expected UCB of every answer is compared, with 4096 nodes,
to a brute-force search (20,000 raw points and 200 local searches per control set with BoTorch's own
optimiser). Further cases: expected improvement, Thompson sampling, 1000 observations, and 1023
control sets in ten dimensions.

    python benchmarks/decision_speed.py                 # speed, memory and quality, all problems
    python benchmarks/decision_speed.py --quick         # speed and memory only, one minute

Everything runs on one thread. Results go to ``benchmarks/results/decision_speed.json``.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import statistics
import time
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any

import torch
from botorch.generation.gen import gen_candidates_scipy
from botorch.models import SingleTaskGP
from botorch.utils.sampling import draw_sobol_samples
from problems import NOISE_STD, PROBLEMS, Problem, fixed_gp
from torch import Tensor
from tqdm import tqdm

from ax_costaware.acquisition import ExpectedUpperConfidenceBound, optimize_control_sets
from ax_costaware.laws import ProductNodes, TruncatedNormal, sobol_nodes
from ax_costaware.methods import ControlSetHistory, EpsilonSchedule, ExploreThenCommit

RESULTS = Path(__file__).parent / "results" / "decision_speed.json"
VARIANCE = 0.02
NUM_NODES = 64
# CPU seconds of the authors' code for the same decision, measured on two cores of this kind.
AUTHORS = {"gpsample": 10.2, "hartmann": 17.8, "plant": 14.8, "airfoil": 11.7}
AUTHORS_EI, AUTHORS_TS_AIRFOIL = 130.0, 88.8


def state(problem: Problem, seed: int, n: int = 100) -> SingleTaskGP:
    """The model after ``n`` uniformly random observations."""
    generator = torch.Generator().manual_seed(seed)
    X = torch.rand(n, problem.dim, dtype=torch.double, generator=generator)
    noise = torch.randn(n, dtype=torch.double, generator=generator)
    return fixed_gp(X, problem.function(X) + NOISE_STD * noise, problem.lengthscale)


def unit_cube(dim: int) -> Tensor:
    return torch.stack([torch.zeros(dim), torch.ones(dim)]).double()


def decide(problem: Problem, model: SingleTaskGP, seed: int, acquisition: str = "ucb") -> Any:
    """All control sets, from nodes to best values: what a user pays for one decision."""
    marginals = problem.marginals(VARIANCE)
    nodes, weights = sobol_nodes(marginals, NUM_NODES)
    return optimize_control_sets(
        model,
        unit_cube(problem.dim),
        problem.control_sets,
        nodes,
        weights,
        beta=2.0,
        acquisition=acquisition,
        product=ProductNodes.from_marginals(marginals),
        seed=seed,
    )


def timed(call: Callable[[int], Any], repeats: int = 5) -> float:
    """Median CPU seconds over repeats, after one call to warm up."""
    call(0)
    seconds = []
    for repeat in range(1, repeats + 1):
        start = time.process_time()
        call(repeat)
        seconds.append(time.process_time() - start)
    return statistics.median(seconds)


def peak_megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _measure(case: str, connection: Any) -> None:
    """Run one speed case in a process of its own, so that its peak memory is its own."""
    torch.set_num_threads(1)
    before = peak_megabytes()
    seconds = CASES[case]()
    connection.send({"cpu_s": seconds, "peak_mb_above_imports": peak_megabytes() - before})


def _decision_case(name: str, acquisition: str, n: int = 100) -> Callable[[], float]:
    def run() -> float:
        problem = PROBLEMS[name]()
        models = [state(problem, seed, n) for seed in range(6)]
        return timed(lambda seed: decide(problem, models[seed], seed, acquisition))

    return run


def _subsets_case(rule: Any, plays_left: bool, n: int = 100) -> Callable[[], float]:
    """Every subset of ten inputs as a control set; cost grows with the size."""

    def run() -> float:
        dim = 10
        marginals = [TruncatedNormal.from_variance(0.5, VARIANCE, 0.0, 1.0)] * dim
        subsets = [s for size in range(1, dim + 1) for s in combinations(range(dim), size)]
        costs = tuple(len(subset) / dim for subset in subsets)
        history = ControlSetHistory(
            parameters=tuple(frozenset(str(c) for c in subset) for subset in subsets),
            costs=costs,
            plays=tuple(0 if plays_left else 1000 for _ in subsets),
            affordable=(True,) * len(subsets),
            round=1,
        )
        nodes, weights = sobol_nodes(marginals, NUM_NODES)
        product = ProductNodes.from_marginals(marginals)

        def call(seed: int) -> Any:
            generator = torch.Generator().manual_seed(seed)
            X = torch.rand(n, dim, dtype=torch.double, generator=generator)
            y = torch.sin(3 * X).sum(dim=-1) - (X**2).sum(dim=-1)
            model = fixed_gp(X, (y - y.mean()) / y.std(), 0.5)

            def evaluate(indices: Any) -> list[float]:
                chosen = [subsets[i] for i in indices]
                optima = optimize_control_sets(
                    model, unit_cube(dim), chosen, nodes, weights, product=product, seed=seed
                )
                return optima.value.tolist()

            return rule.decide(history, evaluate)

        return timed(call, repeats=3)

    return run


CASES: dict[str, Callable[[], float]] = {
    **{f"{name}: all 7 control sets, UCB": _decision_case(name, "ucb") for name in PROBLEMS},
    **{f"{name}: all 7 control sets, EI": _decision_case(name, "ei") for name in PROBLEMS},
    **{f"{name}: all 7 control sets, TS": _decision_case(name, "ts") for name in PROBLEMS},
    "hartmann: all 7 control sets, UCB, n=1000": _decision_case("hartmann", "ucb", 1000),
    "10-D: 1023 control sets, epsilon 0.1": _subsets_case(EpsilonSchedule.constant(0.1), True),
    "10-D: 1023 control sets, epsilon 1": _subsets_case(EpsilonSchedule.constant(1.0), True),
    "10-D: 1023 control sets, explore then commit": _subsets_case(
        ExploreThenCommit.adaptive(), True
    ),
    "10-D: 1023 control sets, n=1000, epsilon 0.1": _subsets_case(
        EpsilonSchedule.constant(0.1), True, 1000
    ),
}


def speed(case: str) -> dict[str, float]:
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_measure, args=(case, sender))
    process.start()
    sender.close()
    try:
        result: dict[str, float] = receiver.recv()
    finally:
        process.join()
    return result


def brute_force(
    functions: list[ExpectedUpperConfidenceBound],
    fine: list[ExpectedUpperConfidenceBound],
    dim: int,
) -> Tensor:
    """The best value of every control set by raw force, scored by ``fine``."""
    values = []
    raw = draw_sobol_samples(unit_cube(dim), n=20_000, q=1, seed=12345)
    for function, score in zip(functions, fine, strict=True):
        with torch.no_grad():
            order = function(raw).argsort(descending=True)
        found, reached = gen_candidates_scipy(
            raw[order[:200]], function, lower_bounds=0.0, upper_bounds=1.0
        )
        best = found[reached.argsort(descending=True)[:5]]
        with torch.no_grad():
            values.append(score(best).max())
    return torch.stack(values)


def shortfalls(arguments: tuple[str, int]) -> list[list[float]]:
    """``(answer, brute force)`` of every control set at one random state."""
    name, seed = arguments
    torch.set_num_threads(1)
    problem = PROBLEMS[name]()
    model = state(problem, 1000 + seed)
    marginals = problem.marginals(VARIANCE)
    optima = decide(problem, model, seed)

    def with_nodes(m: int) -> list[ExpectedUpperConfidenceBound]:
        nodes, weights = sobol_nodes(marginals, m, seed=99)
        return [
            ExpectedUpperConfidenceBound(model, controlled, nodes, weights)
            for controlled in problem.control_sets
        ]

    fine = with_nodes(4096)
    reference = brute_force(with_nodes(128), fine, problem.dim)
    with torch.no_grad():
        answer = torch.stack(
            [
                score(x.reshape(1, 1, -1)).squeeze()
                for score, x in zip(fine, optima.point, strict=True)
            ]
        )
    chosen = optima.value.argmax()
    return [answer.tolist(), reference.tolist(), [float(answer[chosen])]]


def quality(name: str, states: int, processes: int) -> dict[str, float]:
    """Shortfall of the chosen query, and of each control set's, over random states."""
    tasks = [(name, seed) for seed in range(states)]
    context = multiprocessing.get_context("spawn")
    with context.Pool(processes) as pool:
        rows = list(tqdm(pool.imap_unordered(shortfalls, tasks), total=states, desc=name))
    answer = torch.tensor([row[0] for row in rows])
    reference = torch.tensor([row[1] for row in rows])
    chosen = torch.tensor([row[2][0] for row in rows])
    decision = reference.max(dim=-1).values - chosen
    every = reference - answer
    return {
        "states": states,
        "decision_mean_shortfall": float(decision.mean()),
        "decision_worst_shortfall": float(decision.max()),
        "every_set_mean_shortfall": float(every.mean()),
        "every_set_worst_shortfall": float(every.max()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--quick", action="store_true", help="leave the brute force out")
    parser.add_argument("--states", type=int, default=20, help="random states per problem")
    parser.add_argument("--processes", type=int, default=2, help="processes for the brute force")
    parser.add_argument("--only", default="", help="cases and problems whose name contains this")
    args = parser.parse_args()
    results: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for case in CASES:
        if args.only not in case:
            continue
        results[case] = speed(case)
        line = results[case]
        print(
            f"{case:50s} {line['cpu_s']:7.3f} CPU s, peak {line['peak_mb_above_imports']:5.0f} MB"
            + _against(case, line["cpu_s"]),
            flush=True,
        )
    if not args.quick:
        for name in PROBLEMS:
            if args.only not in name:
                continue
            results[f"quality {name}"] = line = quality(name, args.states, args.processes)
            print(f"{name}: " + ", ".join(f"{key} {value:.4g}" for key, value in line.items()))
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    print(f"wrote {RESULTS}")


def _against(case: str, seconds: float) -> str:
    name = case.split(":", maxsplit=1)[0]
    if case.endswith("UCB") and name in AUTHORS:
        return f", 1/{AUTHORS[name] / seconds:.0f} of the authors' code"
    if case.endswith("EI") and name in ("gpsample", "hartmann"):
        return f", 1/{AUTHORS_EI / seconds:.0f} of the authors' code"
    if case.startswith("airfoil") and case.endswith("TS"):
        return f", 1/{AUTHORS_TS_AIRFOIL / seconds:.0f} of the authors' code"
    return ""


if __name__ == "__main__":
    main()
