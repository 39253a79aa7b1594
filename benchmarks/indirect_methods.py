"""The methods of ``indirect.py`` on grids: what is queried next, and what is recommended."""

from __future__ import annotations

from abc import ABC, abstractmethod
from copy import deepcopy
from functools import cache

import torch
from botorch import fit_gpytorch_mll
from botorch.acquisition.acquisition import AcquisitionFunction
from botorch.acquisition.analytic import LogExpectedImprovement, UpperConfidenceBound
from botorch.models import SingleTaskGP
from botorch.models.transforms.input import Normalize
from botorch.models.utils.gpytorch_modules import get_covar_module_with_dim_scaled_prior
from gpytorch.kernels import Kernel, RBFKernel, ScaleKernel
from gpytorch.means import ConstantMean
from gpytorch.mlls import ExactMarginalLogLikelihood
from gpytorch.priors import LogNormalPrior
from indirect_problems import (
    PROBLEMS,
    MappedCell,
    average_grid,
    conditional_of,
    target_grid,
    unit_grid,
    value,
)
from torch import Tensor

from ax_costaware.acquisition import (
    ConditionalJointEntropySearch,
    ConditionalMaxValueEntropySearch,
    LatentSpace,
    sample_optima,
)
from ax_costaware.acquisition.standard_normal import truncated_information
from ax_costaware.laws import Conditional
from ax_costaware.methods import Cell, ResolutionTree
from ax_costaware.models import ConditionalMeanProcess, ExactPosterior

BASELINES = ("mes", "ucb", "ei")
NUM_INITIAL = 5
NUM_SAMPLES = 32
LEVELS = 6


def fixed_kernel(lengthscale: tuple[float, ...], outputscale: float) -> Kernel:
    """A squared-exponential kernel with these hyperparameters."""
    kernel = ScaleKernel(RBFKernel(ard_num_dims=len(lengthscale))).double()
    kernel.base_kernel.lengthscale = torch.tensor(lengthscale, dtype=torch.double)
    kernel.outputscale = torch.tensor(outputscale, dtype=torch.double)
    return kernel


class Chooser(ABC):
    """One run of a method."""

    num_initial = NUM_INITIAL
    fits_noise = True
    fitted_noise: float | None = None

    def __init__(self, name: str, method: str, seed: int, conditional: Conditional) -> None:
        self.name, self.method, self.seed = name, method, seed
        self.problem = PROBLEMS[name]
        self.generator = torch.Generator().manual_seed(seed)
        self.conditional = conditional
        self.targets = target_grid(name)
        self.values = value(name, self.targets)
        self.optimum = float(self.values.max())
        self.A = torch.empty(0, conditional.num_query_columns, dtype=torch.double)
        self.z = torch.empty(0, 1, dtype=torch.double)
        self.noise = torch.empty(0, 1, dtype=torch.double)
        lengthscale, outputscale = self.problem.lengthscale, self.problem.outputscale
        self.kernel = fixed_kernel(lengthscale, outputscale)
        self.plain_kernel = fixed_kernel(lengthscale, outputscale)
        self.mean, self.plain_mean = ConstantMean().double(), ConstantMean().double()

    @abstractmethod
    def query(self, left: float) -> tuple[float, float]:
        """Make the next query: its cost, and the true average."""

    def model(self, kernel: Kernel | None = None) -> ConditionalMeanProcess:
        """The conditional mean process of the data; without a kernel it is to be fitted."""
        return ConditionalMeanProcess(
            self.A,
            self.z,
            self.conditional,
            covar_module=kernel,
            mean_module=None if kernel is None else self.mean,
            noise=self.noise_for(kernel),
            latent_transform=Normalize(2, bounds=self.problem.box()),
            outcome_transform=None,
        )

    def noise_for(self, kernel: Kernel | None) -> Tensor | float | None:
        """Noise variances of a model; None to have them fitted."""
        if not self.fits_noise:
            return self.noise
        return None if kernel is None else self.fitted_noise or self.noise

    def plain_model(self, kernel: Kernel, mean: ConstantMean | None) -> SingleTaskGP:
        """A Gaussian process of the averages alone, as the baselines use."""
        return SingleTaskGP(
            self.A[:, -2:],
            self.z,
            self.noise if self.fitted_noise is None else self.noise * 0 + self.fitted_noise,
            covar_module=kernel,
            mean_module=mean,
            outcome_transform=None,
        )

    def fit(self) -> None:
        """Fit the hyperparameters to the data, and the noise where it is not that of a level."""
        model = self.model()
        fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
        if self.fits_noise:
            self.fitted_noise = float(model.likelihood.noise.detach().mean())
        self.kernel = deepcopy(model.average_kernel.base_kernel).requires_grad_(False)
        constant = getattr(model.mean_module, "constant_mean", model.mean_module)
        self.mean = deepcopy(constant).requires_grad_(False)
        if self.method in BASELINES:
            base = get_covar_module_with_dim_scaled_prior(ard_num_dims=2)
            plain = self.plain_model(
                ScaleKernel(base, outputscale_prior=LogNormalPrior(0.5, 1.0)), None
            )
            fit_gpytorch_mll(ExactMarginalLogLikelihood(plain.likelihood, plain))
            self.plain_kernel = deepcopy(plain.covar_module).requires_grad_(False)
            self.plain_mean = deepcopy(plain.mean_module).requires_grad_(False)

    def information(self, candidates: Tensor, seed: int) -> Tensor:
        """Information, or the baseline's value, at candidates ``m x p``."""
        method = self.method.removeprefix("tree_")
        acquisition: AcquisitionFunction
        if method in BASELINES:
            model = self.plain_model(self.plain_kernel, self.plain_mean).eval()
            points = candidates[:, -2:]
            with torch.random.fork_rng(), torch.no_grad():
                torch.manual_seed(seed)
                if method == "mes":
                    return self._max_value_entropy(model, points)
                if method == "ucb":
                    acquisition = UpperConfidenceBound(model, beta=4.0)
                else:
                    best = model.posterior(self.A[:, -2:]).mean.max()
                    acquisition = LogExpectedImprovement(model, best)
                return torch.Tensor.detach(acquisition(points.unsqueeze(1)))
        model = self.model(self.kernel)
        space = LatentSpace(self.problem.box(), candidates=self.targets)
        inputs, outputs = sample_optima(
            ExactPosterior.of(model), space, num_samples=NUM_SAMPLES, seed=seed
        )
        if method.startswith("joint"):
            acquisition = ConditionalJointEntropySearch(
                model, inputs, outputs, truncate=method.endswith("truncated")
            )
        else:
            acquisition = ConditionalMaxValueEntropySearch(
                model, outputs, noise_aware=method.endswith("aware")
            )
        with torch.no_grad():
            return torch.Tensor.detach(acquisition(candidates.unsqueeze(1)))

    def _max_value_entropy(self, model: SingleTaskGP, points: Tensor) -> Tensor:
        """Wang and Jegelka 2017, equation 6, with the maximum of joint samples on a grid."""
        samples = model.posterior(unit_grid()).rsample(torch.Size([NUM_SAMPLES])).amax(dim=(1, 2))
        posterior = model.posterior(points.unsqueeze(1))
        mean, deviation = posterior.mean.flatten(), posterior.variance.flatten().sqrt()
        gamma = (samples - mean.unsqueeze(-1)) / deviation.unsqueeze(-1)
        return truncated_information(gamma).mean(dim=-1)

    def observe(self, a: Tensor, average: float, deviation: float) -> None:
        """Take the average at a query, with noise."""
        noise = deviation * float(torch.randn(1, generator=self.generator, dtype=torch.double))
        self.A = torch.cat([self.A, a.unsqueeze(0)])
        self.z = torch.cat([self.z, self.z.new_tensor([[average + noise]])])
        self.noise = torch.cat([self.noise, self.noise.new_tensor([[deviation**2]])])

    def recommended(self) -> float:
        """The function at the point with the largest posterior mean."""
        with torch.no_grad():
            mean, _ = ExactPosterior.of(self.model(self.kernel)).latent(self.targets)
        return float(self.values[mean.argmax()])


class GridChooser(Chooser):
    """Queries of the unit grid."""

    def __init__(self, name: str, method: str, seed: int) -> None:
        super().__init__(name, method, seed, conditional_of(name, seed))
        self.candidates, self.averages = unit_grid(), average_grid(name)

    def query(self, left: float) -> tuple[float, float]:
        step = len(self.A)
        if step < NUM_INITIAL or self.method == "random":
            chosen = int(torch.randint(len(self.candidates), (1,), generator=self.generator))
        else:
            chosen = int(self.information(self.candidates, self.seed * 1000 + step).argmax())
        average = float(self.averages[chosen])
        self.observe(self.candidates[chosen], average, self.problem.noise)
        return 1.0, average


@cache
def cell_averages(name: str, level: int) -> Tensor:
    """The averages of all cells of a level, in the order of ``cells_of``."""
    conditional = MappedCell(PROBLEMS[name])
    nodes, weights = conditional.nodes_and_weights(centres(level))
    return (weights * value(name, nodes)).sum(dim=-1)


def tree_of() -> ResolutionTree:
    """The paper's tree: four children, levels 0 to 6."""
    costs = tuple(0.5 * (level + 1) for level in range(LEVELS + 1))
    return ResolutionTree(
        (0.0, 0.0),
        (1.0, 1.0),
        LEVELS,
        splits=2,
        costs=costs,
        noise=tuple(0.5 / cost for cost in costs),
    )


def centres(level: int) -> Tensor:
    """Level and centre of all cells of a level, ``m x 3``."""
    count = 2**level
    side = (torch.arange(count, dtype=torch.double) + 0.5) / count
    grid = torch.cartesian_prod(side, side)
    return torch.cat([torch.full((len(grid), 1), float(level)).to(grid), grid], dim=-1)


class TreeChooser(Chooser):
    """Cells of a tree, whose averages are known to be taken over the cell."""

    fits_noise = False

    def __init__(self, name: str, method: str, seed: int) -> None:
        super().__init__(name, method, seed, MappedCell(PROBLEMS[name]))
        self.tree = tree_of()
        self.measured: list[Cell] = []
        self.on_tree = method.startswith("tree_")

    def query(self, left: float) -> tuple[float, float]:
        step = len(self.A)
        seed = self.seed * 1000 + step
        if not self.on_tree:
            if self.tree.cost(LEVELS) > left + 1e-9:
                return 0.0, 0.0
            candidates = centres(LEVELS)
            if step < NUM_INITIAL or self.method == "random":
                chosen = int(torch.randint(len(candidates), (1,), generator=self.generator))
            else:
                chosen = int(self.information(candidates, seed).argmax())
            return self._measure(candidates[chosen])
        if step == 0:
            cells: tuple[Cell, ...] = (Cell(0, (0, 0)),)
        elif step < NUM_INITIAL:
            cells = (self.tree.children(Cell(0, (0, 0)))[step - 1],)
        else:
            cells = self.tree.active(self.measured)
        if min(self.tree.cost(cell.level) for cell in cells) > left + 1e-9:
            return 0.0, 0.0
        rows = torch.tensor(
            [[cell.level, *self.tree.centre(cell)] for cell in cells], dtype=torch.double
        )
        if len(cells) == 1:
            cell = cells[0]
        else:
            information = self.information(rows, seed).tolist()
            cell = cells[self.tree.decide(cells, information, left)[0]]
        self.measured.append(cell)
        return self._measure(rows[cells.index(cell)])

    def _measure(self, row: Tensor) -> tuple[float, float]:
        level = int(row[0])
        all_rows = centres(level)
        at = int((all_rows[:, 1:] - row[1:]).abs().sum(dim=-1).argmin())
        average = float(cell_averages(self.name, level)[at])
        cost = self.tree.cost(level)
        self.observe(row, average, 0.5 / cost)
        return cost, average
