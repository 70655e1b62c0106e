"""Kernels: positive semidefinite functions of two points, with sums, products and scalings."""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, overload

import torch
from torch import Tensor

from numeric.inputs import (
    ArrayLike,
    InputError,
    positive,
    require_finite,
    require_instance,
    require_points,
    require_signals,
    whole,
)
from numeric.kernels.jets import Jet, jet_by_autograd

__all__ = ["Combined", "FunctionKernel", "Kernel", "Operation", "Scaled", "Tiled"]


class Operation(Protocol):
    """operator.add or operator.mul: what Gram matrices, diagonals and jets have in common."""

    @overload
    def __call__(self, left: Tensor, right: Tensor, /) -> Tensor: ...

    @overload
    def __call__(self, left: Jet, right: Jet, /) -> Jet: ...


class Kernel(ABC):
    r"""A positive semidefinite function of two points, called as (n, d), (m, d) -> (n, m); y = None is y = x.

    Points are tensors in float32 or float64, whose dtype and device results keep, or arrays and lists of
    numbers, which become float64 tensors. Kernels are added, multiplied with each other, and scaled by
    numbers at least 0. A kernel of one's own defines `__call__` and `diagonal`, and may define `jet`.
    Refused are texts, other shapes, and x and y of different dimension, dtype or device.

    >>> from numeric.kernels import FunctionKernel
    >>> linear = FunctionKernel(lambda x, y: x @ y.T)
    >>> quadratic = 0.5 * linear * linear + linear
    >>> quadratic([[2.0]], [[1.0], [3.0]]).tolist()
    [[4.0, 24.0]]
    >>> quadratic.diagonal([[2.0]]).tolist()
    [12.0]
    >>> quadratic.metric([[2.0]]).tolist()
    [[[9.0]]]
    """

    @abstractmethod
    def __call__(self, x: ArrayLike, y: ArrayLike | None = None) -> Tensor:
        """The Gram matrix, (n, d), (m, d) -> (n, m); y = None is y = x."""

    @abstractmethod
    def diagonal(self, x: ArrayLike) -> Tensor:
        """k(x, x), (n, d) -> (n,): the diagonal of the Gram matrix without the rest of it."""

    def jet(self, x: ArrayLike) -> Jet:
        """k(x, x), its derivative by y at y = x, and the metric: (n, d) -> (n,), (n, d), (n, d, d).

        Unless a kernel knows better, torch differentiates it; refused are then functions that torch cannot
        differentiate twice, or that have a kink at y = x.
        """
        return jet_by_autograd(self, require_points(x)[0])

    def metric(self, x: ArrayLike) -> Tensor:
        r"""The metric that the kernel induces, $\partial_x\partial_y k$ at y = x: (n, d) -> (n, d, d)."""
        return self.jet(x).metric

    def __add__(self, other: Kernel) -> Kernel:
        return Combined(self, other, operator.add)

    def __mul__(self, other: Kernel | float) -> Kernel:
        if isinstance(other, Kernel):
            return Combined(self, other, operator.mul)
        return Scaled(self, other)

    def __rmul__(self, other: float) -> Kernel:
        return self * other


@dataclass(frozen=True, eq=False)
class Combined(Kernel):
    """k(x, y) + l(x, y) or k(x, y) l(x, y): an operation that Gram matrices, diagonals and jets share.

    Made by `k + l` and `k * l`; parts that are no Kernels are refused.
    """

    left: Kernel
    right: Kernel
    operation: Operation

    def __post_init__(self) -> None:
        _require_kernel(self.left)
        _require_kernel(self.right)

    def __call__(self, x: ArrayLike, y: ArrayLike | None = None) -> Tensor:
        return self.operation(self.left(x, y), self.right(x, y))

    def diagonal(self, x: ArrayLike) -> Tensor:
        return self.operation(self.left.diagonal(x), self.right.diagonal(x))

    def jet(self, x: ArrayLike) -> Jet:
        return self.operation(self.left.jet(x), self.right.jet(x))


@dataclass(frozen=True, eq=False)
class Scaled(Kernel):
    """c k(x, y) with a number c at least 0, as made by `c * k`; other factors are refused."""

    kernel: Kernel
    factor: float

    def __post_init__(self) -> None:
        _require_kernel(self.kernel)
        factor = positive("factor", self.factor, zero=True)
        object.__setattr__(self, "factor", factor)

    def __call__(self, x: ArrayLike, y: ArrayLike | None = None) -> Tensor:
        return self.factor * self.kernel(x, y)

    def diagonal(self, x: ArrayLike) -> Tensor:
        return self.factor * self.kernel.diagonal(x)

    def jet(self, x: ArrayLike) -> Jet:
        return self.kernel.jet(x).scaled(self.factor)


@dataclass(frozen=True, eq=False)
class FunctionKernel(Kernel):
    """The kernel of a function of one's own, (n, d), (m, d) -> (n, m), in torch operations.

    The function is handed two tensors of finite points, and entry (i, j) of its result must depend on point i
    of the first and point j of the second alone. Refused are results of another shape, and points that are
    NaN or infinite.

    >>> import torch
    >>> laplace = FunctionKernel(lambda x, y: torch.exp(-torch.cdist(x, y)))
    >>> laplace([[0.0, 0.0], [3.0, 4.0]]).shape
    torch.Size([2, 2])
    """

    function: Callable[[Tensor, Tensor], Tensor]

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise InputError(f"A kernel needs a function of two tensors, not {self.function!r}.")

    def __call__(self, x: ArrayLike, y: ArrayLike | None = None) -> Tensor:
        x, y = _finite_points(x, y)
        gram = self.function(x, y)
        if not isinstance(gram, Tensor) or gram.shape != (len(x), len(y)):
            shape = tuple(gram.shape) if isinstance(gram, Tensor) else type(gram).__name__
            raise InputError(
                f"A kernel function takes {len(x)} and {len(y)} points to a matrix of shape "
                f"{(len(x), len(y))}, but yours gave {shape}."
            )
        return gram

    def diagonal(self, x: ArrayLike) -> Tensor:
        points, _ = require_points(x)
        return torch.cat([self(point[None]).flatten() for point in points])


@dataclass(frozen=True, eq=False)
class Tiled(Kernel):
    """A kernel computed in tiles of so many rows and columns, where intermediate results are large.

    The numbers are those of the kernel itself; counts that are no whole numbers above 0 are refused.

    >>> linear = FunctionKernel(lambda x, y: x @ y.T)
    >>> Tiled(linear, rows=1, columns=2)([[1.0], [2.0], [3.0]]).tolist()
    [[1.0, 2.0, 3.0], [2.0, 4.0, 6.0], [3.0, 6.0, 9.0]]
    """

    kernel: Kernel
    rows: int = 1024
    columns: int = 1024

    def __post_init__(self) -> None:
        _require_kernel(self.kernel)
        whole("rows", self.rows)
        whole("columns", self.columns)

    def __call__(self, x: ArrayLike, y: ArrayLike | None = None) -> Tensor:
        x, y = require_signals(x, y)
        columns = (x if y is None else y).split(self.columns)
        return torch.cat(
            [torch.cat([self.kernel(a, b) for b in columns], 1) for a in x.split(self.rows)]
        )

    def diagonal(self, x: ArrayLike) -> Tensor:
        return torch.cat(
            [self.kernel.diagonal(chunk) for chunk in require_signals(x)[0].split(self.rows)]
        )

    def jet(self, x: ArrayLike) -> Jet:
        return Jet.cat([self.kernel.jet(chunk) for chunk in require_signals(x)[0].split(self.rows)])


def _finite_points(x: ArrayLike, y: ArrayLike | None) -> tuple[Tensor, Tensor]:
    """Points x and y, where y = None is y = x."""
    x, y = require_points(x, y)
    require_finite("x", x)
    if y is None:
        return x, x
    require_finite("y", y)
    return x, y


def _require_kernel(value: Kernel) -> None:
    require_instance("A part of a kernel", value, Kernel, "FunctionKernel(function)")
