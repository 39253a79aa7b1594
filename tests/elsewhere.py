"""A device for tests, which computes on the CPU and is not to be mixed with it.

It stands in for an accelerator where there is none. A tensor says that it is elsewhere; an
operation on it and on a tensor of the CPU is an error, as with CUDA, and so is reading it as an
array. What CUDA allows is allowed: numbers as tensors without a dimension, and indices on the CPU.

The name is that of a device type which torch has and nobody uses: gradients of types with streams
need their library.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, NoReturn

import torch
from torch import Tensor
from torch.utils._mode_utils import no_dispatch
from torch.utils._python_dispatch import TorchDispatchMode

ELSEWHERE = "lazy:0"

DEVICES = [ELSEWHERE, *(["cuda"] if torch.cuda.is_available() else [])]
"""What tests are run with beside the CPU."""

_aten = torch.ops.aten
_MOVES = (_aten._to_copy.default, _aten.copy_.default, _aten.copy.default)


class _Tensor(Tensor):
    """A tensor elsewhere, with the one that holds its numbers."""

    numbers: Tensor

    @staticmethod
    def __new__(cls, numbers: Tensor) -> _Tensor:
        found: _Tensor = Tensor._make_wrapper_subclass(
            cls,
            numbers.shape,
            strides=numbers.stride(),
            storage_offset=numbers.storage_offset(),
            dtype=numbers.dtype,
            device=torch.device(ELSEWHERE),
        )
        found.numbers = numbers
        return found

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _run(func, args, kwargs or {})

    def tolist(self) -> Any:
        return self.detach().cpu().tolist()

    def numpy(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError("a tensor elsewhere is no array: call cpu() first")

    __array__ = numpy

    def __repr__(self, **_: Any) -> str:
        return f"{self.tolist()} elsewhere"


class _Mode(TorchDispatchMode):
    """Makes tensors elsewhere where these are asked for by the name of the device."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if _is_elsewhere(kwargs.get("device")) or any(issubclass(t, _Tensor) for t in types):
            return _run(func, args, kwargs)
        return func(*args, **kwargs)


def _is_elsewhere(device: Any) -> bool:
    return device is not None and torch.device(device).type == torch.device(ELSEWHERE).type


def _tensors(item: Any) -> Iterator[Tensor]:
    """The tensors among arguments, which are in lists and tuples at the most."""
    if isinstance(item, Tensor):
        yield item
    elif isinstance(item, list | tuple):
        for part in item:
            yield from _tensors(part)


def _mapped(change: Callable[[Any], Any], item: Any) -> Any:
    """What a function makes of everything in lists and tuples."""
    if isinstance(item, list | tuple):
        return type(item)([_mapped(change, part) for part in item])
    return change(item)


def _numbers(leaf: Any) -> Any:
    return leaf.numbers if isinstance(leaf, _Tensor) else leaf


@cache
def _takes_indices(func: Any) -> bool:
    return "index" in str(func)


def _run(func: Any, args: Any, kwargs: Any) -> Any:
    """Do an operation with the numbers, and say of the result where it is."""
    tensors = [*_tensors(args), *_tensors([*kwargs.values()])]
    is_elsewhere = any(isinstance(tensor, _Tensor) for tensor in tensors)
    alien = [t for t in tensors if t.dim() > 0 and not isinstance(t, _Tensor)]
    if func in _MOVES:
        is_elsewhere, alien = isinstance(args[0], _Tensor), []
    elif _takes_indices(func) and isinstance(args[0], _Tensor):
        alien = [t for t in alien if t.is_floating_point()]
    elif func is _aten.index.Tensor:  # of a tensor on the CPU, where the indices have to be, too
        alien = [t for t in tensors if isinstance(t, _Tensor)]
    if is_elsewhere and alien:
        raise RuntimeError(f"{func}: tensors elsewhere and on the CPU, {[t.shape for t in alien]}")
    args_here = _mapped(_numbers, args)
    kwargs_here = {name: _mapped(_numbers, value) for name, value in kwargs.items()}
    if (device := kwargs.get("device")) is not None:
        is_elsewhere, kwargs_here["device"] = _is_elsewhere(device), "cpu"

    def placed(leaf: Any) -> Any:
        return _Tensor(leaf) if is_elsewhere and isinstance(leaf, Tensor) else leaf

    found = func(*args_here, **kwargs_here)
    if kwargs.get("out") is not None:
        return kwargs["out"]
    if torch.Tag.inplace_view in func.tags:
        with no_dispatch():  # what the tensor says of its shape, too
            meta, now = torch._C.DispatchKeySet(torch._C.DispatchKey.Meta), args[0].numbers
            shape = now.size(), now.stride(), now.storage_offset()
            _aten.as_strided_.default.redispatch(meta, args[0], *shape)
    if func._schema.is_mutable and func._schema.name.endswith("_"):
        return args[0]
    return _mapped(placed, found)


@contextmanager
def elsewhere(device: str = ELSEWHERE) -> Iterator[str]:
    """Within it torch has the device, whose name is given; any other one is there or is not."""
    if device != ELSEWHERE:
        yield device
        return
    # What is made of a list is made on the CPU first, and moved by an operation that we see.
    before = torch._C._only_lift_cpu_tensors()
    torch._C._set_only_lift_cpu_tensors(True)
    try:
        with _Mode():
            yield ELSEWHERE
    finally:
        torch._C._set_only_lift_cpu_tensors(before)
