"""Models of what trials cost, where most of what was tried is cheap: on the laws of the panel.

A process of the log of the cost, a line, and their sum, told 4, 8, 16 and 40 costs of points that
lie in the cheap half of the space, with a scatter of five per cent, say what random points cost.
Of each model: the error of the logarithm of the cost (root mean square), the negative log-density
of the true one, how many costs are more than twice what was expected, and CPU seconds of a fit.

    python benchmarks/cost_models.py
"""

from __future__ import annotations

import argparse
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
    twice_as_dear: float
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
    dear = (true > mean + 0.5 * variance + math.log(2)).double()
    error = (true - mean).square().mean().sqrt()
    return Errors(float(error), -float(density.mean()), float(dear.mean()), cpu)


def main() -> None:
    """Judge all models on all laws, and write the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=16)
    seeds = range(parser.parse_args().seeds)
    torch.set_num_threads(1)
    for category in (BotorchWarning, OptimizationWarning, NumericalWarning):
        warnings.simplefilter("ignore", category)
    cells = [cell for cell in CELLS.values() if cell.learned and not cell.name.startswith("noisy")]
    heads = ["error", "log loss", "twice as dear", "CPU s"]
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
