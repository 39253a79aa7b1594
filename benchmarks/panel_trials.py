"""One run of the panel on trials that cost differently: a method on a cell, without Ax."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from botorch.acquisition.logei import qLogNoisyExpectedImprovement
from botorch.exceptions.warnings import BotorchWarning, OptimizationWarning
from botorch.models import SingleTaskGP
from botorch.models.model import Model
from botorch.models.utils.gpytorch_modules import (
    get_covar_module_with_dim_scaled_prior,
    get_matern_kernel_with_gamma_prior,
)
from gpytorch.constraints import GreaterThan
from gpytorch.kernels import MaternKernel, ScaleKernel
from gpytorch.priors import GammaPrior, LogNormalPrior
from gpytorch.utils.warnings import NumericalWarning
from panel_cells import LEARNED_SPREAD, Cell
from scipy.stats import yeojohnson, yeojohnson_normmax
from torch import Tensor

from ax_costaware.acquisition import incumbent
from ax_costaware.core import Decision, Problem, Simulation, Stop
from ax_costaware.core.model import ModelOptions
from ax_costaware.core.simulation import Outcome
from ax_costaware.core.traits import Traits
from ax_costaware.costs import Cost
from ax_costaware.methods import CostAware, Gittins, GittinsDecay, Method
from ax_costaware.methods.costed import CostArgument
from ax_costaware.models import DenseMarginalLogLikelihood
from ax_costaware.models.configurable_gp import search_by_logarithms
from ax_costaware.models.matern_gp import MaternGP

LEVELS = tuple(i / 20 for i in range(1, 21))
"""Parts of the budget at which a run is looked at."""

_MOST_TRIALS = 400


@dataclass(frozen=True)
class PlainAx(Method):
    """Ax's default for one objective: its acquisition function, initial design and outliers."""

    traits = Traits(winsorize_iqr=1.5)

    def initial(self, problem: Problem) -> Decision | Stop | None:
        """The center of the search space if constraints allow it, then quasi-random trials."""
        if problem.trials or not problem.space.meets(problem.space.center):
            return super().initial(problem)
        state = self.budget_state(problem, initial=True)
        return self.initial_decision(problem, problem.space.center, None, state)

    def decide(self, problem: Problem) -> Decision:
        """The trial that noisy expected improvement likes best, whatever it costs."""
        acquisition = qLogNoisyExpectedImprovement(
            problem.model, problem.evaluated, prune_baseline=True
        )
        point = problem.maximize(acquisition, {}).point
        (row,) = problem.space.decode(point.unsqueeze(0))
        return Decision(row, "It has the largest noisy expected improvement.")


@dataclass(frozen=True)
class Random(Method):
    """Quasi-random trials."""

    def decide(self, problem: Problem) -> Decision:
        """The next one."""
        return Decision(dict(problem.draw()), "It is quasi-random.")


Make = Callable[[CostArgument, float, int], Method]
"""Makes a method of a cost, a budget and a seed."""


_PUBLISHED: dict[str, Any] = {
    "acquisition": "log_ei_per_cost",
    "initial_share": None,
    "initialize_with_center": False,
    "winsorize": False,
    "kernel": "squared_exponential",
    "cost_model": "gp",
}
"""A design that knows neither costs nor the center, outcomes as they are, Ax's kernel, and learned
costs without a trend."""


def _published(kind: type[CostAware] = CostAware, **settings: Any) -> Make:
    fields = {**_PUBLISHED, **settings}
    if kind is Gittins:
        fields.pop("acquisition")
    return lambda cost, budget, seed: kind(cost, budget=budget, seed=seed, **fields)


METHODS: dict[str, Make] = {
    "default": lambda cost, budget, seed: CostAware(cost, budget=budget, seed=seed),
    "plain Ax": lambda cost, budget, seed: PlainAx(seed=seed),
    "log EI": lambda cost, budget, seed: CostAware(1.0, seed=seed, **_PUBLISHED),
    "log EI per cost": _published(),
    "log EI, cooled": _published(acquisition="log_ei_cost_cooling"),
    "PBGI, price held": _published(Gittins, stop=True),
    "PBGI, price found again": _published(Gittins),
    "PBGI-D": _published(Gittins, decay=GittinsDecay()),
    "random": lambda cost, budget, seed: Random(seed=seed),
}
"""The methods by name: the default, and its rivals."""


class ByEvidence(ModelOptions):
    """Of the models with either kernel, the one with the larger marginal likelihood."""

    def fitted(self, X: Tensor, Y: Tensor, bounds: Tensor, Yvar: Tensor | None = None) -> Model:
        """The model of some data."""
        both = ModelOptions(), ModelOptions("TodaysPriors", TodaysPriors)
        fits = [options.fitted(X, Y, bounds, Yvar) for options in both]
        return max(fits, key=_evidence)


def _evidence(model: Any) -> float:
    model.train()
    with torch.no_grad():
        value = DenseMarginalLogLikelihood(model.likelihood, model)(
            model(*model.train_inputs), model.train_targets
        )
    model.eval()
    return float(value)


class PowerTransformed(ModelOptions):
    """The model of ``TodaysPriors`` of outcomes that a power transform makes as normal as it can.

    Yeo and Johnson 2000, "A new family of power transformations to improve normality or symmetry",
    with the power of the largest likelihood. Expectations are in other units, which a comparison of
    points does not mind.
    """

    def fitted(self, X: Tensor, Y: Tensor, bounds: Tensor, Yvar: Tensor | None = None) -> Model:
        """The model of some data."""
        assert Yvar is None
        standard = ((Y - Y.mean()) / Y.std()).numpy()
        power = float(np.clip(yeojohnson_normmax(standard), *_POWERS))
        transformed = torch.tensor(yeojohnson(standard, power))
        return ModelOptions("TodaysPriors", TodaysPriors).fitted(X, transformed, bounds)


class TodaysPriors(SingleTaskGP):
    """A Matern kernel with BoTorch's priors of today, as the default had before.

    The prior of the length-scales grows with the number of inputs (Hvarfner, Hellsten and Nardi
    2024, "Vanilla Bayesian Optimization Performs Great in High Dimensions").
    """

    def __init__(self, train_X: Tensor, train_Y: Tensor, **arguments: Any) -> None:
        kernel = get_covar_module_with_dim_scaled_prior(train_X.shape[-1], use_rbf_kernel=False)
        super().__init__(train_X, train_Y, covar_module=kernel, **arguments)
        search_by_logarithms(self)


class GammaLengthscales(SingleTaskGP):
    """The default's model without a variance of its own."""

    def __init__(self, train_X: Tensor, train_Y: Tensor, **arguments: Any) -> None:
        kernel = get_matern_kernel_with_gamma_prior(train_X.shape[-1]).base_kernel
        super().__init__(train_X, train_Y, covar_module=kernel, **arguments)


class ShortLengthscales(SingleTaskGP):
    """That of ``TodaysPriors`` with length-scales that are taken to be a tenth as long."""

    def __init__(self, train_X: Tensor, train_Y: Tensor, **arguments: Any) -> None:
        d = train_X.shape[-1]
        prior = LogNormalPrior(math.log(0.35 * math.sqrt(d)), 0.8)
        bound = GreaterThan(2.5e-2, transform=None, initial_value=prior.mode)
        kernel = MaternKernel(
            nu=2.5, ard_num_dims=d, lengthscale_prior=prior, lengthscale_constraint=bound
        )
        super().__init__(train_X, train_Y, covar_module=kernel, **arguments)


class OwnVariance(SingleTaskGP):
    """That of ``TodaysPriors`` with a variance of its own, as the default has."""

    def __init__(self, train_X: Tensor, train_Y: Tensor, **arguments: Any) -> None:
        base = get_covar_module_with_dim_scaled_prior(train_X.shape[-1], use_rbf_kernel=False)
        kernel = ScaleKernel(base, outputscale_prior=GammaPrior(2.0, 0.15))
        super().__init__(train_X, train_Y, covar_module=kernel, **arguments)


_POWERS = -4.0, 6.0
"""Powers that are taken; of few outcomes the likelihood may have no largest value."""


class ChoicesApart(MaternGP):
    """The default's model with a length-scale for each column of a one-hot choice."""

    knows_choices = False


@dataclass(frozen=True)
class CellCost(Cost):
    """A cell's law of costs, differentiable, by names of parameters."""

    cell: Cell

    @property
    def parameters(self) -> tuple[str, ...]:
        """All inputs that are numbers, in order."""
        return tuple(n for i, n in enumerate(self.cell.names) if i not in self.cell.choices)

    def evaluate(self, columns: Mapping[str, Tensor]) -> Tensor:
        """Costs of the shape of the columns."""
        # Those that are no numbers are not read by the laws that are declared.
        none = torch.zeros_like(columns[self.parameters[0]])
        X = torch.stack([columns.get(name, none) for name in self.cell.names], dim=-1)
        return self.cell.cost(X.reshape(-1, X.shape[-1])).reshape(X.shape[:-1])


VARIANTS: dict[str, ModelOptions | None] = {
    "EI over the best mean": None,
    "choices apart": ModelOptions("ChoicesApart", ChoicesApart),
    "costs without a trend": None,
    "squared-exponential kernel": ModelOptions(),
    "kernel by evidence": ByEvidence("by evidence"),
    "today's priors": ModelOptions("TodaysPriors", TodaysPriors),
    "gamma length-scales": ModelOptions("GammaLengthscales", GammaLengthscales),
    "short length-scales": ModelOptions("ShortLengthscales", ShortLengthscales),
    "own variance": ModelOptions("OwnVariance", OwnVariance),
    "power transform": PowerTransformed("power transform"),
}
"""As the default was before it took the incumbent for uncertain; that with another model of
choices; and without a trend of learned costs, by itself and with another model. In a table only
where they are asked for."""


def made(name: str, cost: CostArgument, budget: float, seed: int) -> Method:
    """A method by name, variants included."""
    if name not in VARIANTS:
        return METHODS[name](cost, budget, seed)
    fields: dict[str, Any] = {"acquisition": "log_ei_per_cost"}
    if name not in ("EI over the best mean", "choices apart"):
        fields |= {"winsorize": name != "power transform", "cost_model": "gp"}
    return CostAware(cost, budget=budget, seed=seed, **fields)


def simulate(cell: Cell, name: str, seed: int) -> dict[str, Any]:
    """One run: the incumbent at each part of the budget.

    Returns:
        ``values``: the true value of what would be deployed at each of ``LEVELS`` (-1, that of the
        median point, before there is anything); ``spent``, ``trials`` and ``cpu_s``.
    """
    torch.set_num_threads(1)
    for category in (BotorchWarning, OptimizationWarning, NumericalWarning):
        warnings.simplefilter("ignore", category)
    started = time.process_time()
    cost: CostArgument = "cost" if cell.learned else CellCost(cell)
    method = made(name, cost, cell.mean_costs, seed)
    simulation = Simulation(method, cell.space, hyperparameters=VARIANTS.get(name))
    noise = np.random.default_rng(seed + 1000)
    spent, trace = 0.0, [(0.0, -1.0)]
    values: list[float] = []
    marks = np.array(LEVELS) * cell.mean_costs + 1e-9
    while len(values) < _MOST_TRIALS:
        decision = simulation.ask()
        if isinstance(decision, Stop):
            break
        X = cell.point(decision.parameters)
        charge, value = float(cell.cost(X)), float(cell.value(X))
        outcome = value + cell.noise * noise.standard_normal()
        if cell.learned:
            charge *= math.exp(LEARNED_SPREAD * noise.standard_normal())
        if spent + charge > cell.mean_costs * (1 + 1e-9):
            break
        # To see the incumbent takes a fit, where the method itself makes none.
        before, after = np.searchsorted(marks, [spent, spent + charge])
        if values and before < after:
            trace.append((spent, values[_incumbent(simulation)]))
        spent += charge
        values.append(value)
        simulation.tell(decision, Outcome(outcome, charge))
    if values:
        trace.append((spent, values[_incumbent(simulation)]))
    reached = np.searchsorted([step[0] for step in trace], marks, "right") - 1
    return {
        "values": [round(trace[i][1], 6) for i in reached],
        "spent": round(spent / cell.mean_costs, 4),
        "trials": len(values),
        "cpu_s": round(time.process_time() - started, 1),
    }


def _incumbent(simulation: Simulation) -> int:
    """The trial with the best posterior mean, or in the initial design the best outcome."""
    problem = simulation.problem()
    if problem.num_initial < simulation.method.initial_trials and all(
        trial.record.get("phase") == "initial" for trial in simulation.trials
    ):
        return int(np.argmax([trial.outcome or 0.0 for trial in simulation.trials]))
    return int(incumbent(problem.model, problem.evaluated)[1])
