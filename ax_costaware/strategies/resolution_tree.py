"""The resolution-tree strategy: coarse and cheap, or fine and dear?

A cell of a tree over the space is measured as a whole: a satellite's pixel, a region's average.
Each trial measures the cell whose mean is expected to tell most, per unit of cost, about the best
point (CMETS of Zhang et al. 2024, "Indirect Query Bayesian Optimization
with Integrated Feedback", section 5.2).
"""

from __future__ import annotations

from collections.abc import Sequence

from ax.api.configs import RangeParameterConfig
from ax.generation_strategy.generation_strategy import GenerationStrategy

from ax_costaware.ax_bridge.checks import ax_errors
from ax_costaware.ax_bridge.records import parameters_of_configs
from ax_costaware.ax_bridge.strategy import strategy_of
from ax_costaware.methods.averages import Information
from ax_costaware.methods.method import check_integer
from ax_costaware.methods.model import FixedHyperparameters
from ax_costaware.methods.resolution_tree import LEVEL, TreeSearch


@ax_errors()
def level_parameter(max_level: int) -> RangeParameterConfig:
    """The parameter that says how fine a cell is, to be added to those of the experiment.

    Args:
        max_level: The finest level, at least 1; the whole space is level 0.

    Raises:
        UserInputError: For any other ``max_level``.
    """
    check_integer("max_level", max_level, 1)
    return RangeParameterConfig(LEVEL, bounds=(0, max_level), parameter_type="int")


@ax_errors()
def resolution_tree_strategy(
    target_parameters: Sequence[RangeParameterConfig],
    max_level: int,
    splits: int | Sequence[int] = 2,
    costs: Sequence[float] | None = None,
    noise: Sequence[float] | float | None = None,
    budget: float | None = None,
    acquisition: Information = "max_value_entropy",
    initial_trials: int | None = None,
    charge_initial: bool = True,
    hyperparameters: FixedHyperparameters | None = None,
    seed: int = 0,
    num_samples: int = 32,
) -> GenerationStrategy:
    """A strategy that chooses where to measure, and how finely.

    The experiment has the parameters of ``level_parameter(max_level)`` and the target parameters
    themselves: a trial is a cell, given by its level and its centre, and its metric is the mean of
    the objective over the cell. Candidates are the leaves of a tree, which the cells that were
    measured have grown, and their children. ``recommend(client)`` says which point is best.

    Args:
        target_parameters: The parameters of the points: ranges of real numbers without a log scale.
        max_level: The finest level, at least 1.
        splits: Into how many parts a cell is split along every parameter, or along each of them.
        costs: What a cell of each level costs, from level 0 to ``max_level``; None:
            ``0.5 (level + 1)``.
        noise: Standard deviation of the noise of a measurement, one for each level or one for all;
            None: fitted, or that of ``hyperparameters``. Standard errors that are reported with the
            outcomes replace it for these outcomes.
        budget: What all trials may cost together. When what is left pays for no cell, asking for
            one raises ``OptimizationShouldStop``, which says what to deploy. None: no limit.
        acquisition: What a cell is to tell of; see ``indirect_query_strategy``.
        initial_trials: Cells that are measured before the model decides, the coarsest first. None:
            the whole space and the cells of level 1. With 0 the experiment needs a trial with data,
            attached, before the first is asked for.
        charge_initial: Whether the initial trials are paid from the budget.
        hyperparameters: ``FixedHyperparameters`` of the model of the objective, on the unit cube of
            the target parameters; None: fitted.
        seed: Seed of everything random. Two runs with one seed and the same outcomes agree.
        num_samples: Sampled optima over which the information is averaged.

    Returns:
        A generation strategy for ``Client.set_generation_strategy``, ``AxClient`` or an
        ``Orchestrator``.

    Raises:
        UserInputError: If an argument has a value that the method cannot use. Whether the
            arguments fit the experiment is checked when the first trial is asked for.
    """
    settings = locals()
    settings["target_parameters"] = parameters_of_configs(target_parameters)
    settings["noise_sd"] = settings.pop("noise")
    return strategy_of(TreeSearch(**settings))
