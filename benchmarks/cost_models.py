"""Models of what trials cost, where most of what was tried is cheap: on the laws of the panel.

A process of the log of the cost, a line, and their sum, told 4, 8, 16 and 40 costs of points that
lie in the cheap half of the space, with a scatter of five per cent, say what random points cost.
Of each model: the error of the logarithm of the cost (root mean square), the negative log-density
of the true one, how many costs are more than twice what was expected, and CPU seconds of a fit.

With ``--choices``: a trend whose values of a choice share a length-scale, and one where each has
its own, told costs of two numbers and three values of a choice of four, say what random points with
these values cost, and with the fourth.

    python benchmarks/cost_models.py
    python benchmarks/cost_models.py --choices
"""

from __future__ import annotations

import argparse
import itertools
import math
import time
import warnings
from typing import NamedTuple, get_args

import torch
from botorch.exceptions.warnings import BotorchWarning, OptimizationWarning
from gpytorch.utils.warnings import NumericalWarning
from kept_runs import RESULTS
from panel_cells import CELLS, LEARNED_SPREAD, Cell
from torch import Tensor
from tqdm import tqdm

from ax_costaware.models import CostKind, LogNormalCostModel

NUMBERS = (4, 8, 16, 40)
NUM_TESTS = 500
KINDS: tuple[CostKind, ...] = get_args(CostKind)


class Errors(NamedTuple):
    """How good a model is, and how long it takes."""

    root_mean_square: float
    log_loss: float
    twice_as_expensive: float
    cpu_s: float


def judge(cell: Cell, kind: CostKind, number: int, seed: int) -> Errors:
    """A model of a number of costs."""
    generator = torch.Generator().manual_seed(seed)

    def points(count: int) -> Tensor:
        return torch.rand(count, cell.dim, generator=generator, dtype=torch.double)

    # The cheap half of twice as many points as are told, in any order.
    tried = points(4 * number)
    cheap = tried[cell.cost(tried).argsort()[: 2 * number]]
    told = cheap[torch.randperm(2 * number, generator=generator)[:number]]
    scatter = torch.randn(number, generator=generator, dtype=torch.double)
    costs = cell.cost(told) * (LEARNED_SPREAD * scatter).exp()
    bounds = torch.stack([torch.zeros(cell.dim), torch.ones(cell.dim)]).double()
    started = time.process_time()
    model = LogNormalCostModel(told, costs, kind, bounds)
    cpu = time.process_time() - started
    at = points(NUM_TESTS)
    mean, variance = model.log_moments(at)
    true = cell.cost(at).log()
    density = -0.5 * ((true - mean).square() / variance + (2 * math.pi * variance).log())
    expensive = (true > mean + 0.5 * variance + math.log(2)).double()
    error = (true - mean).square().mean().sqrt()
    return Errors(float(error), -float(density.mean()), float(expensive.mean()), cpu)


def judge_choices(factor: float, number: int, shared: bool, seed: int) -> list[float]:
    """Error and log loss of the log cost for values that were tried, and for one that was not."""
    generator = torch.Generator().manual_seed(seed)
    own = torch.tensor([0.0, 1.0, -1.0, 0.5]).double() * math.log(factor)

    def drawn(n: int, values: Tensor) -> tuple[Tensor, Tensor]:
        numbers = torch.rand(n, 2, generator=generator, dtype=torch.double)
        points = torch.cat([numbers, torch.eye(4).double()[values]], dim=-1)
        return points, numbers @ torch.tensor([1.5, -0.5]).double() + own[values]

    X, logs = drawn(number, torch.randint(0, 3, (number,), generator=generator))
    scatter = torch.randn(number, generator=generator, dtype=torch.double)
    bounds = torch.tensor([[0.0], [1.0]]).double().expand(2, 6)
    choices = [[2, 3, 4, 5]] if shared else []
    costs = (logs + LEARNED_SPREAD * scatter).exp()
    model = LogNormalCostModel(X, costs, "trend", bounds, choices)
    found = []
    for values in (
        torch.randint(0, 3, (NUM_TESTS,), generator=generator),
        3 * torch.ones(NUM_TESTS),
    ):
        at, true = drawn(NUM_TESTS, values.long())
        mean, variance = model.log_moments(at)
        density = -0.5 * ((true - mean).square() / variance + (2 * math.pi * variance).log())
        found += [float((true - mean).square().mean().sqrt()), -float(density.mean())]
    return found


def choices_table(seeds: range) -> str:
    """The table of ``judge_choices``."""
    lines = [
        "| values differ by | costs told | length-scale | tried: error | log loss | untried: error "
        "| log loss |",
        "|---" * 7 + "|",
    ]
    for factor, number, shared in itertools.product((1.0, 3.0, 10.0), NUMBERS[:3], (True, False)):
        found = torch.tensor([judge_choices(factor, number, shared, s) for s in seeds]).mean(0)
        name = "shared" if shared else "each its own"
        numbers = " | ".join(f"{value:.2f}" for value in found.tolist())
        lines.append(f"| {factor:g} | {number} | {name} | {numbers} |")
    return "\n".join(lines)


def main() -> None:
    """Judge all models on all laws, and write the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=16)
    parser.add_argument("--choices", action="store_true")
    arguments = parser.parse_args()
    seeds = range(arguments.seeds)
    torch.set_num_threads(1)
    for category in (BotorchWarning, OptimizationWarning, NumericalWarning):
        warnings.simplefilter("ignore", category)
    if arguments.choices:
        text = choices_table(seeds)
        print(text)
        (RESULTS / "cost_models_choices.md").write_text(text + "\n")
        return
    cells = [c for c in CELLS.values() if c.learned and not c.name.startswith(("noisy", "mixed"))]
    heads = ["error", "log loss", "twice as expensive", "CPU s"]
    lines = [
        "| cell | law | costs | " + " | ".join(f"{k}: {h}" for h in heads for k in KINDS) + " |",
        "|---" * (3 + len(heads) * len(KINDS)) + "|",
    ]
    total = []
    for cell in tqdm(cells):
        for number in NUMBERS:
            found = torch.tensor([[judge(cell, k, number, s) for k in KINDS] for s in seeds])
            total.append(found.mean(dim=0))
            lines.append(f"| {cell.name} | {cell.law} | {number} | {_row(total[-1])} |")
    for number, rows in zip(
        NUMBERS, torch.stack(total).unflatten(0, (-1, len(NUMBERS))).unbind(1), strict=True
    ):
        lines.append(f"| mean | | {number} | {_row(rows.mean(dim=0))} |")
    text = "\n".join(lines)
    print(text)
    (RESULTS / "cost_models.md").write_text(text + "\n")


def _row(found: Tensor) -> str:
    """One measure after the other, of each kind."""
    return " | ".join(f"{value:.2f}" for value in found.mT.flatten().tolist())


if __name__ == "__main__":
    main()
