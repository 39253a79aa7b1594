"""Transform that hides the ``control_set`` parameter from the model.

Which inputs a trial controlled says nothing about the objective once the realised inputs are known
(the paper's f is a function of x alone), so the GP never sees the parameter. On the way out the
control set that was chosen is put back, with the exact raw values that the generator attached:
nominal values for what is not controlled, and unrounded values of discrete inputs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ax.adapter.transforms.base import Transform
from ax.core.data_utils import ExperimentData
from ax.core.observation import ObservationFeatures
from ax.core.parameter import ParameterType, RangeParameter
from ax.core.search_space import SearchSpace
from ax.generators.types import TConfig

from ax_costaware.records import CONTROL_SET

if TYPE_CHECKING:
    from ax.adapter.base import Adapter

EXACT_VALUES = "exact_values"
"""Key of the candidate metadata under which raw values travel past the transforms."""


class HideControlSet(Transform):
    """Drops ``control_set`` on the way to the model, and restores it on the way out.

    It has to be the first of the transforms after those that Ax itself puts in front.
    """

    def __init__(
        self,
        search_space: SearchSpace | None = None,
        experiment_data: ExperimentData | None = None,
        adapter: Adapter | None = None,
        config: TConfig | None = None,
    ) -> None:
        super().__init__(
            search_space=search_space,
            experiment_data=experiment_data,
            adapter=adapter,
            config=config,
        )
        parameters = {} if search_space is None else search_space.parameters
        self._order = list(parameters)
        self._integers = {
            name
            for name, parameter in parameters.items()
            if isinstance(parameter, RangeParameter)
            and parameter.parameter_type is ParameterType.INT
        }

    def transform_search_space(self, search_space: SearchSpace) -> SearchSpace:
        """The search space without ``control_set``."""
        return SearchSpace(
            parameters=[p for name, p in search_space.parameters.items() if name != CONTROL_SET],
            parameter_constraints=[c.clone() for c in search_space.parameter_constraints],
        )

    def transform_observation_features(
        self, observation_features: list[ObservationFeatures]
    ) -> list[ObservationFeatures]:
        """The features without ``control_set``, in place."""
        for features in observation_features:
            features.parameters.pop(CONTROL_SET, None)
        return observation_features

    def transform_experiment_data(self, experiment_data: ExperimentData) -> ExperimentData:
        """The data without the column of ``control_set``."""
        return ExperimentData(
            arm_data=experiment_data.arm_data.drop(columns=[CONTROL_SET], errors="ignore"),
            observation_data=experiment_data.observation_data,
        )

    def untransform_observation_features(
        self, observation_features: list[ObservationFeatures]
    ) -> list[ObservationFeatures]:
        """Put back what the generator attached to a candidate, in place."""
        for features in observation_features:
            for name in self._integers & features.parameters.keys():
                # Ax truncates when it casts to an integer; exp(log(3)) would end as 2.
                features.parameters[name] = round(float(str(features.parameters[name])))
            metadata = features.metadata or {}
            if CONTROL_SET in metadata:
                values = {
                    **features.parameters,
                    **metadata[EXACT_VALUES],
                    CONTROL_SET: metadata[CONTROL_SET],
                }
                # In the declared order, in which the user reads them.
                features.parameters = {name: values[name] for name in self._order if name in values}
        return observation_features
