"""What the generators of all methods share: settings, and a fit that depends on nothing else."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import torch
from ax.core.search_space import SearchSpaceDigest
from ax.core.types import TCandidateMetadata
from ax.generators.torch.botorch_modular.generator import BoTorchGenerator
from ax.generators.torch.botorch_modular.surrogate import SurrogateSpec
from botorch.acquisition.objective import PosteriorTransform, ScalarizedPosteriorTransform
from botorch.utils.datasets import SupervisedDataset
from botorch.utils.sampling import manual_seed
from torch import Tensor

from ax_costaware.generators.method_settings import MethodSettings
from ax_costaware.generators.surrogates import default_surrogate_spec


class CostAwareGenerator(BoTorchGenerator):
    """Base of this package's generators.

    Args:
        settings: What the strategy was asked to do.
        surrogate_spec: The surrogate; by default Ax's, with standardised outcomes.
        refit_on_cv: Whether hyperparameters are fitted anew on every fold of a cross-validation.
        warm_start_refit: Whether a fit starts at the hyperparameters of the last one. False, so
            that a decision depends on the data alone and not on the fits before it.
    """

    def __init__(
        self,
        settings: MethodSettings,
        surrogate_spec: SurrogateSpec | None = None,
        refit_on_cv: bool = False,
        warm_start_refit: bool = False,
    ) -> None:
        super().__init__(
            surrogate_spec=surrogate_spec or default_surrogate_spec(),
            refit_on_cv=refit_on_cv,
            warm_start_refit=warm_start_refit,
        )
        self.settings = settings

    def fit(
        self,
        datasets: Sequence[SupervisedDataset],
        search_space_digest: SearchSpaceDigest,
        candidate_metadata: list[list[TCandidateMetadata]] | None = None,
        state_dict: OrderedDict[str, Tensor] | None = None,
        refit: bool = True,
        **additional_model_inputs: Any,
    ) -> None:
        """Fit the surrogate under the settings' seed; the global random state stays as it was.

        The seed does not depend on the trial: Ax skips the fit where the data did not change.
        """
        with manual_seed(self.settings.seed):
            super().fit(
                datasets=datasets,
                search_space_digest=search_space_digest,
                candidate_metadata=candidate_metadata,
                state_dict=state_dict,
                refit=refit,
                **additional_model_inputs,
            )


def direction(minimize: bool) -> PosteriorTransform | None:
    """Posterior transform after which larger is better."""
    if not minimize:
        return None
    return ScalarizedPosteriorTransform(weights=torch.tensor([-1.0], dtype=torch.double))
