"""The device of the tests is strict enough to stand in for one."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.elsewhere import elsewhere


def test_it_computes_as_the_cpu_does() -> None:
    with elsewhere() as device:
        x = torch.arange(1.0, 4.0, device=device).requires_grad_()
        y = (2.0 * x**2).sum()
        y.backward()
        assert y.device == x.device == torch.zeros(3).to(x).device == torch.device(device)
        assert (y.item(), x.grad.tolist(), x.cpu().detach().numpy().sum()) == (28.0, [4, 8, 12], 6)  # type: ignore[union-attr]
        assert x[torch.tensor([0, 2])].tolist() == [1.0, 3.0]
        x.data[0] = 5.0
        assert (x * torch.tensor(2.0)).tolist() == [10.0, 4.0, 6.0]
        assert torch.linalg.cholesky(4 * torch.eye(2, device=device)).tolist() == [[2, 0], [0, 2]]


def test_it_is_not_mixed_with_the_cpu() -> None:
    with elsewhere() as device:
        x = torch.ones(3, device=device)
        for mixed in (
            lambda: x + torch.ones(3),
            lambda: torch.cat([x, torch.ones(1)]),
            lambda: torch.ones(3)[x > 0],
            lambda: x.masked_fill(torch.ones(3, dtype=torch.bool), 0.0),
        ):
            with pytest.raises(RuntimeError, match="elsewhere and on the CPU"):
                mixed()
        with pytest.raises(TypeError, match="no array"):
            np.asarray(x)
