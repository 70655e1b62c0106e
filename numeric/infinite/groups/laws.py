"""Equivariance and invariance under a group, as checks for tests and users."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from numeric.infinite.groups.action import ActsOnSignals, require_acts
from numeric.inputs import ArrayLike, InputError, generator_for, require_signals, shown, whole
from numeric.kernels import Kernel

__all__ = ["assert_equivariant", "assert_invariant"]

TOLERANCE = {torch.float64: 1e-12, torch.float32: 1e-5}  # relative to the largest value
ELEMENTS = 5  # of the group, drawn at random, beside its first ones


def assert_equivariant(
    model: Kernel | Callable[[Tensor], Tensor],
    group: ActsOnSignals,
    x: ArrayLike,
    outputs: ActsOnSignals | None = None,
    seed: int = 0,
) -> None:
    r"""Raise an AssertionError unless f(g x) = g f(x), or for a kernel k(g x, g y) = k(x, y).

    Parameters: `model` is a function or module (n, channels, ...) -> (n, ...), or a Kernel; `group` acts on
    the signals x (n, channels, ...), as an Action or p4 do; `outputs` acts on what the model returns, and is
    `group` itself where that has positions, while outputs (n, k) must not change. Elements of the group are
    drawn by `seed`. Equal is what agrees to 1e-12 of the largest value in float64, 1e-5 in float32.
    Refused are other models, also those that return no tensor, other groups, and signals on which the group
    cannot act.

    >>> from numeric.infinite.groups import Action, cyclic
    >>> x = torch.eye(4, dtype=torch.float64)[:, None]
    >>> assert_equivariant(lambda x: x**2, Action(cyclic(4)), x)
    >>> assert_equivariant(lambda x: x.cumsum(2), Action(cyclic(4)), x)
    Traceback (most recent call last):
    AssertionError: f(g x) = g f(x) is off by 1 for g = 1
    """
    x = _checked(model, group, x)
    if isinstance(model, Kernel):
        gram = model(x)
        for g in _elements(group, seed):
            moved = model(group.act(g, x))
            _require_close(
                gram, moved, x.dtype, f"k(g x, g y) = k(x, y) is off by %.3g for g = {g}"
            )
        return
    acting = group if outputs is None else outputs
    require_acts(acting)
    with torch.no_grad():
        values = _outputs(model, x)
        for g in _elements(group, seed):
            moved = _outputs(model, group.act(g, x))
            flat = values.ndim < 3 and outputs is None
            expected = values if flat else acting.act(g, values)
            _require_close(expected, moved, x.dtype, f"f(g x) = g f(x) is off by %.3g for g = {g}")


def assert_invariant(kernel: Kernel, group: ActsOnSignals, x: ArrayLike, seed: int = 0) -> None:
    """Raise an AssertionError unless k(x, g y) = k(x, y), as after pooling over the group.

    Parameters are those of `assert_equivariant`.

    >>> from numeric.infinite.groups import Action, Averaged, cyclic
    >>> from numeric.infinite.groups.action import OnSignals
    >>> from numeric.kernels import FunctionKernel
    >>> flat, shifts = OnSignals(FunctionKernel(lambda x, y: x @ y.T)), Action(cyclic(4))
    >>> assert_invariant(Averaged(flat, shifts), shifts, torch.eye(4)[:, None])
    """
    if not isinstance(kernel, Kernel):
        raise InputError(f"kernel must be a Kernel such as net.ntk, not {shown(kernel)}.")
    x = _checked(kernel, group, x)
    gram = kernel(x, x)
    for g in _elements(group, seed):
        moved = kernel(x, group.act(g, x))
        _require_close(gram, moved, x.dtype, f"k(x, g y) = k(x, y) is off by %.3g for g = {g}")


def _checked(model: object, group: ActsOnSignals, x: ArrayLike) -> Tensor:
    if not callable(model):
        raise InputError(
            f"model must be a Kernel or a function of signals, not {shown(model)}: give net.ntk or a module."
        )
    require_acts(group)
    return require_signals(x)[0]


def _outputs(model: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """What a model makes of signals, one tensor; other outputs are refused."""
    values = model(x)
    if not isinstance(values, Tensor):
        raise InputError(
            f"model returned {shown(values)}, but one tensor (n, ...) is needed: wrap the model in a "
            "function that returns that."
        )
    return values


def _elements(group: ActsOnSignals, seed: int) -> list[int]:
    """Element 1, and some at random, in order."""
    generator = generator_for("elements", whole("seed", seed, least=0))
    drawn = torch.randint(group.order, (ELEMENTS,), generator=generator).tolist()
    return sorted({min(1, group.order - 1), *drawn})


def _require_close(one: Tensor, other: Tensor, dtype: torch.dtype, law: str) -> None:
    assert one.shape == other.shape, f"shapes {tuple(one.shape)} and {tuple(other.shape)} differ"
    off, scale = (one - other).abs().max(), one.abs().max()
    assert off <= TOLERANCE[dtype] * scale, law % off
