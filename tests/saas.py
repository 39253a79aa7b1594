"""A fully Bayesian model without its fit, which takes JAX: samples of hyperparameters by hand."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from botorch.models import fully_bayesian
from botorch.models.transforms import Normalize, Standardize
from torch import Tensor

NUM_SAMPLES = 4


def saas_model(
    monkeypatch: pytest.MonkeyPatch, X: Tensor, Y: Tensor, Yvar: Tensor | None = None
) -> fully_bayesian.SaasFullyBayesianSingleTaskGP:
    """A model of points ``n x d`` and outcomes ``n x 1``, with transforms of both."""
    monkeypatch.setattr(fully_bayesian, "_HAS_JAX", True)
    # JAX's arrays are made on construction, and serve the fit only.
    monkeypatch.setattr(fully_bayesian, "jnp", SimpleNamespace(array=np.asarray), raising=False)
    d = X.shape[-1]
    model = fully_bayesian.SaasFullyBayesianSingleTaskGP(
        X, Y, Yvar, input_transform=Normalize(d), outcome_transform=Standardize(1)
    )
    generator = torch.Generator().manual_seed(0)
    uniform = torch.rand(d + 3, NUM_SAMPLES, dtype=torch.double, generator=generator)
    samples = {
        "lengthscale": 0.3 + uniform[:d].T,
        "outputscale": 0.5 + uniform[d],
        "mean": uniform[d + 1] - 0.5,
    }
    if Yvar is None:
        samples["noise"] = 0.01 + 0.01 * uniform[d + 2]
    model.load_mcmc_samples(samples)
    model.eval()
    return model
