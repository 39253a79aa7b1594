"""The control-set strategy: factory, and the parameter that an experiment needs for it.

``control_set_strategy`` is UCB-CVS of Tay et al. 2023, "Bayesian Optimization with Cost-varying
Variable Subsets" (NeurIPS): an initial design, then a rule that chooses for every trial which
inputs to control, with the values that maximise an acquisition function in expectation over the
rest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ax.api.configs import ChoiceParameterConfig
from ax.generation_strategy.generation_strategy import GenerationStrategy
from ax.generators.torch.botorch_modular.surrogate import SurrogateSpec

from ax_costaware.ax_bridge.checks import ax_errors
from ax_costaware.ax_bridge.strategy import strategy_of
from ax_costaware.methods.control_sets import ControlSets
from ax_costaware.methods.control_sets.checks import CONTROL_SET
from ax_costaware.methods.model import FixedHyperparameters
from ax_costaware.policies.beta import TheoreticalBeta
from ax_costaware.policies.control_set_rules import ControlSetRule
from ax_costaware.queries.control_sets import ControlSet, check_control_sets
from ax_costaware.queries.joint import JointLaw
from ax_costaware.queries.marginals import Marginal


@ax_errors()
def control_set_parameter(control_sets: Sequence[ControlSet]) -> ChoiceParameterConfig:
    """The ``control_set`` parameter that an experiment with control sets needs.

    Args:
        control_sets: The control sets, as given to ``control_set_strategy``.

    Returns:
        The configuration to put among the ``parameters`` of ``Client.configure_experiment``.

    Raises:
        UserInputError: If there are no control sets, or two of them are alike.
    """
    names = [str(control_set.name) for control_set in check_control_sets(control_sets)]
    return ChoiceParameterConfig(
        name=CONTROL_SET, values=names, parameter_type="str", is_ordered=False
    )


@ax_errors()
def control_set_strategy(
    control_sets: Sequence[ControlSet],
    marginals: Mapping[str, Marginal],
    budget: float | None = None,
    rule: ControlSetRule | None = None,
    beta: float | TheoreticalBeta = 2.0,
    acquisition: str = "ucb",
    initial_trials: int = 5,
    initial_control_sets: Sequence[str] | None = None,
    charge_initial: bool = True,
    surrogate_spec: SurrogateSpec | FixedHyperparameters | None = None,
    seed: int = 0,
    num_nodes: int = 128,
    num_restarts: int | None = None,
    raw_samples: int | None = None,
    joint: JointLaw | None = None,
) -> GenerationStrategy:
    """A strategy that chooses for every trial which inputs to control, and their values.

    Args:
        control_sets: The subsets of the inputs that a trial can control, each with its cost, or
            with None for a cost that is learned: ``complete_trial`` then needs what each trial
            cost, which may depend on the values that it sets.
        marginals: Distribution of each input where a trial does not control it, by name, in the
            parameter's raw units. Inputs that every control set controls need none. A ``Learned``
            one is updated with the values that the input takes in trials that do not control it.
        budget: What all trials may cost together, in the unit of the costs. A trial is never chosen
            beyond it; when it pays for no control set any more, asking for a trial raises
            ``OptimizationShouldStop``, which says what to deploy. None: no limit. Where costs are
            learned, what is expected is held against the budget, so that it is passed by no more
            than the last trial's surprise, or the last batch's.
        rule: How a control set is chosen. By default ``recommended_rule`` finds one by what is
            known of the costs, and the log says which.
        beta: Weight of the standard deviation in the upper confidence bound ``mu + beta * sigma``:
            a number, or ``TheoreticalBeta``.
        acquisition: What is maximised in expectation: ``"ucb"``, ``"ei"`` or ``"ts"``.
        initial_trials: Quasi-random trials before the model decides. With 0 the experiment needs a
            trial with data, attached, before the first is asked for.
        initial_control_sets: Names of the control sets that the initial trials cycle through; by
            default those of the cheapest cost, or all of them where a cost is unknown.
        charge_initial: Whether the initial trials are paid from the budget.
        surrogate_spec: The model: an Ax ``SurrogateSpec``, ``FixedHyperparameters``, or None for
            Ax's default GP with fitted hyperparameters.
        seed: Seed of everything random. Two runs with one seed and the same outcomes agree.
        num_nodes: Quasi-random nodes that stand for the joint law of the uncontrolled inputs.
        num_restarts: Restarts of the inner optimisation per control set.
        raw_samples: Raw starting points of the inner optimisation per control set.
        joint: Joint law of inputs that depend on each other, ``JointEmpirical`` or
            ``GaussianCopula``; these are not among ``marginals``. A trial that controls some of
            them leaves the others to their law given the controlled values.

    Returns:
        A generation strategy for ``Client.set_generation_strategy``, ``AxClient`` or an
        ``Orchestrator``.

    Raises:
        UserInputError: If an argument has a value that the method cannot use. Whether the
            arguments fit the experiment is checked when the first trial is asked for.
    """
    settings = locals()
    surrogate_spec = settings.pop("surrogate_spec")
    return strategy_of(ControlSets(**settings), surrogate_spec)
