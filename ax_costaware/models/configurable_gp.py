"""A Gaussian process whose constructor takes more than a data set."""

from __future__ import annotations

from typing import Any

from botorch.models import SingleTaskGP
from botorch.utils.datasets import SupervisedDataset


class ConfigurableGP(SingleTaskGP):
    """A ``SingleTaskGP`` that is given further constructor arguments beside its data."""

    @classmethod
    def construct_inputs(cls, training_data: SupervisedDataset, **options: Any) -> dict[str, Any]:
        """Constructor arguments from a data set and options, for Ax."""
        return {**super().construct_inputs(training_data), **options}
