"""The node of every strategy's initial design, which Ax's Sobol generator draws.

The method says which of the points that are drawn are run, and what else comes first.
"""

from __future__ import annotations

import time
from typing import Any

from ax.adapter.registry import Cont_X_trans, Generators
from ax.adapter.transforms.int_to_float import IntToFloat
from ax.core.arm import Arm
from ax.core.experiment import Experiment
from ax.core.generator_run import GeneratorRun
from ax.core.trial_status import TrialStatus
from ax.core.utils import get_trial_indices_with_required_metrics
from ax.exceptions.core import SearchSpaceExhausted
from ax.generation_strategy.generator_spec import GeneratorSpec
from ax.generation_strategy.transition_criterion import MaxTrialsAwaitingData, MinTrials

from ax_costaware.ax_bridge.attached import beside_designs
from ax_costaware.ax_bridge.checks import (
    ax_errors,
    check_lengthscales_of,
    check_one_arm,
    check_optimization_config,
    no_trial,
)
from ax_costaware.ax_bridge.log import recorded
from ax_costaware.ax_bridge.nodes import MethodNode, method_of, model_spec_of
from ax_costaware.ax_bridge.records import is_excluded, live_observations, problem_of
from ax_costaware.ax_bridge.training_data import match_generator_runs, restore_data
from ax_costaware.ax_bridge.transforms import IntToFloatInOrder
from ax_costaware.core.decision import check_all, next_trial
from ax_costaware.core.failures import are_in_vain
from ax_costaware.core.lending import MOST_DRAWS, design_of
from ax_costaware.core.method import Method
from ax_costaware.core.problem import SpaceExhausted, Stop, decision_seed, reproducible
from ax_costaware.space.parameter_constraints import opposite_of
from ax_costaware.space.parameters import Row

_DESIGN_TRANSFORMS = [
    IntToFloatInOrder if transform is IntToFloat else transform for transform in Cont_X_trans
]

_NOT_TRIED = [TrialStatus.FAILED, TrialStatus.ABANDONED]


class InitialNode(MethodNode):
    """The initial design of a method, which hands over to the node that has the model.

    It hands over when ``count`` trials were generated that neither failed nor were abandoned, or
    attached with data, and half of them (two at least, where there are two) have data; or earlier,
    by ``Method.design_is_over``. Trials that ended without data are made up for until so many have.

    Args:
        count: Number of initial trials, at least one.
        seed: Seed of the quasi-random design.
        name: Name of the node.
        next_node: Name of the node that comes after, which has the method.
        deduplicate: Whether the quasi-random design repeats no trial.
        waits: Whether no more trials than ``count`` may be under way.
        counts_attached: Whether trials that were attached with data count, too; not so in what
            earlier releases stored.
    """

    is_initial = True

    def __init__(
        self,
        count: int,
        seed: int,
        name: str,
        next_node: str,
        deduplicate: bool = True,
        waits: bool = True,
        counts_attached: bool = False,
    ) -> None:
        super().__init__(
            name=name,
            generator_specs=[
                GeneratorSpec(
                    Generators.SOBOL,
                    generator_kwargs={
                        "seed": seed,
                        "deduplicate": deduplicate,
                        "transforms": _DESIGN_TRANSFORMS,
                    },
                )
            ],
            should_deduplicate=False,
            transition_criteria=[
                MinTrials(threshold=count, transition_to=next_node, not_in_statuses=_NOT_TRIED),
                MinTrials(
                    threshold=min(count, max(2, count // 2)),
                    transition_to=next_node,
                    only_in_statuses=[TrialStatus.COMPLETED, TrialStatus.EARLY_STOPPED],
                    use_all_trials_in_exp=True,
                    count_only_trials_with_data=True,
                ),
            ],
            fallback_specs={},
            pausing_criteria=[MaxTrialsAwaitingData(threshold=count)] if waits else None,
        )
        self.count = count
        self.seed = seed
        self.next_node = next_node
        self.deduplicate = deduplicate
        self.waits = waits
        self.counts_attached = counts_attached

    @property
    def trials_from_node(self) -> set[int]:
        """Indices of the trials that are counted: its own, and those with data besides.

        Where too few have outcomes, those that ended without one are made up for by others, unless
        the method may do without.
        """
        found: set[int] = super().trials_from_node
        experiment = self.experiment
        if self.counts_attached:
            found = found | beside_designs(experiment)
        _, outcomes = self.transition_criteria
        assert isinstance(outcomes, MinTrials)
        lacking = outcomes.num_till_threshold(experiment, found)
        if lacking <= 0 or method_of(self.generation_strategy).may_skip:
            return found
        data = experiment.lookup_data().df
        measured = get_trial_indices_with_required_metrics(experiment, data, False)
        return {i for i in found if i in measured or not experiment.trials[i].status.is_terminal}

    def gen(
        self, *, experiment: Experiment, skip_fit: bool = False, **kwargs: Any
    ) -> GeneratorRun | None:
        """The next trial of the method's initial design.

        Raises:
            OptimizationShouldStop: If the budget pays for none.
            DataRequiredError: If that may change when trials that run have reported their costs.
            UserInputError: If the experiment does not fit the method.
            UnsupportedError: If several arms are asked for.
        """
        started = time.monotonic()
        method = method_of(self.generation_strategy)
        check_one_arm(kwargs.get("n"))
        check_optimization_config(experiment.optimization_config)
        drawn: list[GeneratorRun] = []

        def draw() -> Row:
            if self.deduplicate and problem.is_exhausted:
                raise SpaceExhausted  # Ax would look for a point for half a minute
            if is_thin:
                return next(design)
            (spec,) = self.generator_specs
            if not drawn:
                # Ax keeps a generator as long as no trial has come, and with it the place in the
                # sequence, and the columns, of a call that stopped; a loaded experiment does not.
                spec._fitted_adapter = None
            for _ in range(MOST_DRAWS):
                try:
                    run = super(InitialNode, self).gen(
                        experiment=experiment, skip_fit=bool(drawn), **kwargs
                    )
                except SearchSpaceExhausted as error:
                    raise SpaceExhausted from error
                assert run is not None
                drawn.append(run)
                row = run.arms[0].parameters
                # Ax rounds to few digits after it has looked at the constraints.
                if method.candidates() or problem.space.meets(row, rounding=1e-6):
                    break
            return row

        problem = problem_of(
            experiment,
            method,
            live_observations(experiment, kwargs["pending_observations"]),
            kwargs.get("fixed_features"),
            draw=draw,
            num_attached=len(beside_designs(experiment)) if self.counts_attached else 0,
        )
        if (silent := self._stop_of_silence(method)) is not None:
            raise no_trial(method, problem, silent)
        design, space = design_of(problem, method), problem.space
        constraints = experiment.search_space.parameter_constraints
        read = {name for constraint in constraints for name in constraint.constraint_dict}
        # Ax hardly draws any point of a sum that is given, by two inequalities where of integers,
        # and takes the values of an ordered choice for their numbers from zero.
        is_thin = bool(space.equalities) or any(opposite_of(s) in space.sums for s in space.sums)
        is_thin = is_thin or not read <= space.ranges.keys() | space.fixed.keys()
        with ax_errors(), reproducible(decision_seed(method.seed, problem.next_index)):
            check_all(method, problem)
            spec = model_spec_of(self.generation_strategy).generator_kwargs.get("surrogate_spec")
            check_lengthscales_of(spec, problem.space.bounds.shape[-1])
            decision = next_trial(method, problem, initial=True)
        if decision == Stop(SpaceExhausted.REASON) and any(t.is_completed for t in problem.trials):
            # The design has no further point, but the model may know of something to do.
            following = self.generation_strategy.nodes_by_name[self.next_node]
            # In a batch it may be the first to ask for the model.
            return following.gen(experiment=experiment, skip_fit=False, **kwargs)
        if isinstance(decision, Stop):
            raise no_trial(method, problem, decision)

        def in_common(run: GeneratorRun) -> int:
            return sum(run.arms[0].parameters[n] == x for n, x in decision.parameters.items())

        # The design goes on after the point that was taken, whatever the method made of it: with
        # all that it looked at left out, each further trial would be beside this one.
        run = max(reversed(drawn), key=in_common, default=None)
        if run is None or run.arms[0].parameters != decision.parameters:
            run = GeneratorRun(
                arms=[Arm(parameters=decision.parameters)],
                gen_time=time.monotonic() - started,
                generator_key=self.name if run is None else run._generator_key,
                generator_state_after_gen=None if run is None else run._generator_state_after_gen,
            )
            run._generation_node_name = self.name
        return recorded(run, decision, problem, method, experiment)

    def _stop_of_silence(self, method: Method) -> Stop | None:
        """That no trial that was completed, of two designs or more, has all outcomes it is to have.

        They are made up for by others, which would go on for ever.
        """
        experiment = self.experiment
        trials = experiment.trials.values()
        completed = [t for t in trials if t.status.is_completed and not is_excluded(t)]
        if method.may_skip or not are_in_vain(len(completed), method.initial_trials):
            return None
        data = experiment.lookup_data().df
        if get_trial_indices_with_required_metrics(experiment, data, False):
            return None
        config = experiment.optimization_config
        assert config is not None
        return Stop(
            f"None of the {len(completed)} trials that were completed has a value of all of "
            f"{sorted(config.metric_names)}, so that nothing was learned. Attach what is missing, "
            "by attach_data, and the run goes on from there.",
            is_final=False,
        )

    def should_transition_to_next_node(
        self, raise_data_required_error: bool = True
    ) -> tuple[bool, str]:
        """Whether this node is done, and the name of the node to generate from.

        What a killed process left between two transactions, of data or of generator runs, counts
        as if it had not been killed.
        """
        restore_data(self.experiment)
        match_generator_runs(self.generation_strategy, self.experiment)
        done, following = super().should_transition_to_next_node(raise_data_required_error)
        if done or not self.experiment.trial_indices_by_status[TrialStatus.COMPLETED]:
            return done, following
        check_optimization_config(self.experiment.optimization_config)
        method = method_of(self.generation_strategy)
        with ax_errors():
            is_over = method.design_is_over(problem_of(self.experiment, method))
        return (True, self.next_node) if is_over else (done, following)

    def new_trial_limit(self, raise_generation_errors: bool = False) -> int:
        """How many trials can be generated now; -1 for any number.

        Ax asks the current node before it moves to the next one, so that the first batch after the
        initial design would be cut to one trial: once this node is done the next one answers.
        """
        done, following = self.should_transition_to_next_node(raise_data_required_error=False)
        if done:
            node = self.generation_strategy.nodes_by_name[following]
            return node.new_trial_limit(raise_generation_errors=raise_generation_errors)
        return super().new_trial_limit(raise_generation_errors=raise_generation_errors)
