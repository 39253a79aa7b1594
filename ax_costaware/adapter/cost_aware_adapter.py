"""What the adapters of all methods share: what they read of an experiment, and how.

They differ from Ax's ``TorchAdapter`` in the data that they train on (inputs as they were realised,
outcomes at full precision, the objective's metric only, in raw units), and they decide on one arm
at a time.

Besides reading two private fields this module overrides one private method of Ax,
``_set_and_filter_training_data``: Ax has no public hook between the extraction of the data and
the transforms, and its model space is otherwise not widened again after the first fit.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from ax.adapter.torch import TorchAdapter
from ax.core.data_utils import ExperimentData, extract_experiment_data
from ax.core.experiment import Experiment
from ax.core.observation import ObservationFeatures
from ax.core.search_space import SearchSpace
from ax.core.types import TParamValue
from ax.exceptions.core import DataRequiredError, UnsupportedError
from ax.generation_strategy.generation_strategy import GenerationStrategy
from torch import Tensor

from ax_costaware.adapter.decoded_space import DecodedSpace
from ax_costaware.adapter.experiment_checks import check_optimization_config
from ax_costaware.adapter.realized_data import realized_data
from ax_costaware.generators.method_settings import MethodSettings, model_spec_of
from ax_costaware.restored_data import restore_data


class Recommended(Protocol):
    """What an adapter recommends to deploy; means and costs are in raw units."""

    @property
    def control_set(self) -> str | None:
        """Name of the control set, for a method that has them."""
        ...

    @property
    def controlled(self) -> dict[str, TParamValue]:
        """The values to set, in raw units."""
        ...

    @property
    def mean(self) -> float:
        """Posterior mean of the objective, in its own unit and sign."""
        ...

    @property
    def standard_deviation(self) -> float:
        """Posterior standard deviation of the objective."""
        ...

    @property
    def expected_cost(self) -> float | None:
        """What a trial there is expected to cost; None if it is no trial, or nothing is known."""
        ...


class CostAwareAdapter(TorchAdapter):
    """Base of this package's adapters; see the module for what they share."""

    @property
    @abstractmethod
    def settings(self) -> MethodSettings:
        """The settings of the strategy."""

    @abstractmethod
    def recommend(self) -> Sequence[Recommended]:
        """What to deploy under the fitted model, best first."""

    @property
    def experiment(self) -> Experiment:
        """The experiment."""
        return self._experiment

    @property
    def minimize(self) -> bool:
        """Direction of the objective."""
        config = self._optimization_config
        return config is not None and config.objective.minimize

    def model_points(self, parameterizations: Sequence[dict[str, Any]]) -> Tensor:
        """Parameterizations in raw units as points of the model's space, ``n x d``."""
        points = self.transform_observation_features(
            [ObservationFeatures(parameters=dict(values)) for values in parameterizations]
        )
        assert isinstance(points, Tensor)
        return points

    def fixed_columns(
        self, space: DecodedSpace, fixed: Mapping[str, TParamValue]
    ) -> dict[int, float]:
        """Columns of the model's space that parameters fix, with their values.

        Args:
            space: How the parameters are encoded.
            fixed: Values of parameters that the caller fixes, in raw units.
        """
        if not fixed:
            return {}
        (row,) = space.decode(space.bounds[:1])
        (point,) = self.model_points([{**row, **fixed}])
        return {
            i: float(point[i])
            for name in fixed
            if name in space.columns
            for i in space.columns[name].indices
        }

    def _check_one_arm(self, n: int) -> None:
        if n != 1:
            raise UnsupportedError(
                f"n={n}: a cost belongs to one arm, so a trial takes one arm. Ask for several "
                "trials instead."
            )

    def _set_and_filter_training_data(
        self, experiment_data: ExperimentData, search_space: SearchSpace
    ) -> ExperimentData:
        """Lay the realised inputs over the data, and widen the model space to cover them."""
        config = self._optimization_config
        check_optimization_config(config)
        assert config is not None
        if restore_data(self._experiment):
            experiment_data = extract_experiment_data(
                experiment=self._experiment, data_loader_config=self._data_loader_config
            )
        realized = realized_data(
            experiment_data,
            trials=self._experiment.trials,
            metrics=list(config.objective.metric_signatures),
            parameters=list(self._search_space.parameters),
        )
        if realized.observation_data.empty:
            raise DataRequiredError(
                "no trial has an observation of the objective yet: complete a trial, or attach one "
                "with its data, before asking for the next."
            )
        self._set_search_space(self._search_space)
        self._set_model_space(arm_data=realized.arm_data)
        return super()._set_and_filter_training_data(
            experiment_data=realized, search_space=self._model_space
        )


def fitted_adapter(experiment: Experiment, strategy: GenerationStrategy) -> CostAwareAdapter:
    """The adapter of a strategy of this package, fitted to the data of ``experiment``.

    The strategy's own adapter is brought up to date; the strategy does not change its node.

    Raises:
        UserInputError: If the strategy comes from none of the package's functions.
        DataRequiredError: If no trial has an observation yet.
    """
    spec = model_spec_of(strategy)
    spec.fit(experiment=experiment)
    adapter = spec.fitted_adapter
    assert isinstance(adapter, CostAwareAdapter)
    return adapter
