r"""The exact path kernel as a kernel: Gram matrices on two copies of the space of points; kernel machines.

A point that is predicted and a point that training sees have different features, the gradients along a
step and at its start. The sum over steps is positive semidefinite on the union of both copies. (Bell et
al. 2023, definition 3.4, (6) and lemma 3.5.)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from numeric.inputs import ArrayLike, InputError, as_numbers, positive, require_points
from numeric.kernels import Kernel
from numeric.path_kernel.computation import Computation

if TYPE_CHECKING:
    from numeric.path_kernel.exact import ExactPathKernel

__all__ = ["Copy", "KernelMachine", "TwoCopyKernel", "gram_of_step"]

TOGETHER = 16  # points whose diagonal is taken from one Gram matrix


@dataclass(frozen=True, eq=False)
class Copy:
    """Points in one of the two copies of their space: 0 to be predicted, 1 as training sees them.

    >>> Copy(torch.zeros(3, 2), 1).copy
    1
    """

    points: ArrayLike
    copy: int

    def __post_init__(self) -> None:
        if isinstance(self.copy, bool) or self.copy not in (0, 1):
            raise InputError(
                f"copy = {self.copy!r} was given, but it is 0 (predicted) or 1 (trained)."
            )


@dataclass(frozen=True, eq=False)
class TwoCopyKernel(Kernel):
    """A path kernel as a Kernel of points (n, d + 1): coordinates, then the copy, 0 or 1 as in `Copy`.

    The mean over outputs of the diagonal of each block of `path.gram`; inputs of more axes are flattened.

    path: an ExactPathKernel. Called with x (n, d + 1) and y (m, d + 1), or x alone, it returns (n, m).
    Refused are points of other lengths, and a last coordinate that is neither 0 nor 1.

    >>> from functools import partial
    >>> from numeric.path_kernel import ExactPathKernel, record
    >>> x = torch.tensor([[-1.0], [1.0]], dtype=torch.float64)
    >>> net, sgd = torch.nn.Linear(1, 1, bias=False).double(), partial(torch.optim.SGD, lr=0.1)
    >>> run = record(net, torch.nn.MSELoss(), sgd, (x, x), steps=2, device="cpu", progress=False)
    >>> TwoCopyKernel(ExactPathKernel(run))([[0.5, 0]], [[2.0, 0], [2.0, 1]])  # x y at rate 0.1, twice
    tensor([[0.2000, 0.2000]], dtype=torch.float64)
    """

    path: ExactPathKernel

    def __call__(self, x: ArrayLike, y: ArrayLike | None = None) -> Tensor:
        x, y = require_points(x, y)
        y = x if y is None else y
        gram = x.new_empty(len(x), len(y))
        for a, rows in self._copies(x):
            for b, columns in self._copies(y):
                blocks = self.path.gram(a, b)
                gram[rows[:, None], columns] = blocks.diagonal(dim1=2, dim2=3).mean(-1).to(x)
        return gram

    def diagonal(self, x: ArrayLike) -> Tensor:
        points, _ = require_points(x)
        return torch.cat([self(chunk).diagonal() for chunk in points.split(TOGETHER)])

    def _copies(self, x: Tensor) -> Iterator[tuple[Copy, Tensor]]:
        shape = self.path.run.x.shape[1:]
        if x.shape[1] != shape.numel() + 1 or not ((x[:, -1] == 0) | (x[:, -1] == 1)).all():
            raise InputError(
                f"x of shape {tuple(x.shape)} was given, but points of {shape.numel()} coordinates and "
                "behind them the copy, 0 or 1, are needed."
            )
        for copy in (0, 1):
            rows = torch.nonzero(x[:, -1] == copy).squeeze(1)
            if len(rows):
                yield Copy(x[rows, :-1].unflatten(1, shape), copy), rows


@dataclass(frozen=True, eq=False)
class KernelMachine:
    """f(x) = start(x) + sum over i of K(x, x_i) a_i, and what weight decay added: the network itself."""

    path: ExactPathKernel
    coefficients: Tensor  # (M, k)

    def predict(self, x: ArrayLike) -> Tensor:
        """(n, ...) -> (n, k)."""
        blocks = self.path.gram(x, self.path.run.x)
        moved = torch.einsum("nmkj,mj->nk", blocks, self.coefficients)
        return self.path.start(x) + moved + self.path.decay(x)

    def refitted(self, targets: ArrayLike, jitter: float = 0.0) -> KernelMachine:
        """The machine whose coefficients interpolate targets (M, k) at the training points, as copy 1.

        jitter: is added to the diagonal of the Gram matrix (M k, M k), in units of its mean. Refused is a
        Gram matrix that is singular to rounding, as it is after few steps: log-softmax leaves each step M
        directions short.
        """
        positive("jitter", jitter, zero=True)
        train = Copy(self.path.run.x, 1)
        blocks = self.path.gram(train)
        m, _, k, _ = blocks.shape
        targets = as_numbers("targets", targets, "(M, k)").to(blocks)
        if targets.shape != (m, k):
            raise InputError(
                f"targets of shape {tuple(targets.shape)} were given, but {(m, k)} is needed."
            )
        gram = blocks.transpose(1, 2).reshape(m * k, m * k)
        gram = gram + jitter * gram.diagonal().mean() * torch.eye(m * k, device=gram.device).to(
            gram
        )
        values, vectors = torch.linalg.eigh((gram + gram.T) / 2)
        if values[0] <= m * k * torch.finfo(gram.dtype).eps * values[-1]:
            raise InputError(
                f"The Gram matrix of {m} points and {k} outputs is singular to rounding (its eigenvalues go "
                f"from {values[0]:.2g} to {values[-1]:.2g}): give a jitter such as 1e-8."
            )
        rest = (targets - self.path.start(self.path.run.x)).flatten()
        return replace(self, coefficients=(vectors @ ((vectors.T @ rest) / values)).view(m, k))


def gram_of_step(left: Computation, right: Computation, copy: int, other: int, s: int) -> Tensor:
    """The integral over one step of the products of gradients, (n, m, k, k)."""
    at_start = left.run.parameters(left.run.rule.gradient_at(s))
    if copy and other:
        one, two = (work.test.at(at_start).gradients(work.test.points) for work in (left, right))
        return one.inner(two).transpose(1, 2)
    if copy or other:
        tested, trained = (right, left) if copy else (left, right)
        psi = tested.psi(s)
        gram = psi.gradients.inner(trained.test.at(at_start).gradients(trained.test.points))
        gram = gram[psi.points.argsort()].transpose(1, 2)
        return gram.permute(1, 0, 3, 2) if copy else gram
    both = replace(left, x=torch.cat([left.x, right.x]), last={}, guess=[0])
    segment = both.segment(s)
    total = left.new_zeros()
    for t, weight in zip(
        *(v.tolist() for v in both.choices.quadrature.common(both.nodes(segment))), strict=True
    ):
        one, two = (
            work.test.at(segment.at(t)).gradients(work.test.points) for work in (left, right)
        )
        total = total + weight * one.inner(two)
    return total.transpose(1, 2)
