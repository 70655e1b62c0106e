r"""The range of the Jacobian D from a factorisation: $D^+ v$, the projection P, its rank and condition.

Three ways, of which `Factorisations.at` takes the first that is safe:

* Cholesky of $G = D D^T$, with a bound of its condition number that rounding cannot invalidate:
  $1/\lambda_{min}(L L^T) \le |(L L^T)^{-1}|_F$, and $|G - L L^T| \le 4 n \epsilon\, tr\, G$.
* A QR and a singular value decomposition of D itself, where that bound is above `LIMIT`: G has half of D's
  digits. Directions whose singular value is below `rcond` times the largest are lost.
* Conjugate gradients by products with D and $D^T$, where QN is too large for a matrix, preconditioned by
  diagonal blocks of G. Their condition number is an estimate from below, and rank loss shows only as
  failure to converge.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor

from numeric.flows.output_map import Graph, OutputMap
from numeric.inputs import InputError

__all__ = ["ConjugateGradientRange", "FullRange", "Range", "SpectralRange", "factorisations"]

LIMIT = 1e10  # condition number of G from which D itself is factorised: half the digits are left
ROUNDING = 4  # of G and of its Cholesky factor, in units of n epsilon trace
MATRICES = 4  # of size (QN, QN) that a factorisation holds at once
BLOCK = 500  # outputs in a diagonal block of G that is factorised as preconditioner
PLATEAU = (
    100  # iterations without a better residual, and a tenth of QN more, which may rise on the way
)


@dataclass(frozen=True, eq=False)
class FullRange:
    """Full rank, by the Cholesky factor of G."""

    factor: Tensor  # (QN, QN)
    graph: Graph = field(repr=False)
    condition: float
    certified: bool = True

    @property
    def rank(self) -> int:
        return len(self.factor)

    @property
    def lost(self) -> Tensor:
        return self.factor.new_zeros(0, self.rank)

    def solve(self, v: Tensor) -> Tensor:
        return torch.cholesky_solve(v[:, None], self.factor)[:, 0]

    def project(self, v: Tensor) -> Tensor:
        return v

    def lift(self, v: Tensor) -> Tensor:
        return self.graph.pull(self.solve(v))


@dataclass(frozen=True, eq=False)
class SpectralRange:
    """Any rank, by the singular values of D."""

    left: Tensor  # (QN, min(QN, K)), or (QN, QN) where all of output space is spanned
    values: Tensor  # (min(QN, K),), falling
    right: Tensor  # (min(QN, K), K)
    rank: int
    certified: bool = True

    @property
    def condition(self) -> float:
        singular = self.values[: self.rank]
        return float((singular[0] / singular[-1]) ** 2) if self.rank else math.inf

    @property
    def lost(self) -> Tensor:
        basis = self.left[:, : self.rank]
        complete, _ = torch.linalg.qr(basis, mode="complete")
        return complete[:, self.rank :].T

    def solve(self, v: Tensor) -> Tensor:
        r = self.rank
        return self.left[:, :r] @ ((self.left[:, :r].T @ v) / self.values[:r] ** 2)

    def project(self, v: Tensor) -> Tensor:
        basis = self.left[:, : self.rank]
        return basis @ (basis.T @ v)

    def lift(self, v: Tensor) -> Tensor:
        r = self.rank
        return self.right[:r].T @ ((self.left[:, :r].T @ v) / self.values[:r])


@dataclass(frozen=True, eq=False)
class ConjugateGradientRange:
    """Full rank, which is not certified, by products with D and D^T."""

    product: Callable[[Tensor], Tensor] = field(repr=False)  # v -> G v
    precondition: Callable[[Tensor], Tensor] = field(repr=False)
    graph: Graph = field(repr=False)
    rank: int
    tolerance: float
    certified: bool = False

    @cached_property
    def condition(self) -> float:
        """Of the preconditioned G, from a right-hand side of no structure: an estimate from below."""
        like = self.graph.outputs
        probe = torch.arange(1, self.rank + 1, device=like.device).to(like).sin()
        return conjugate_gradients(self.product, probe, self.precondition, self.tolerance)[1]

    @property
    def lost(self) -> Tensor:
        return self.graph.outputs.new_zeros(0, self.rank)

    def solve(self, v: Tensor) -> Tensor:
        solution, _ = conjugate_gradients(self.product, v, self.precondition, self.tolerance)
        return solution

    def project(self, v: Tensor) -> Tensor:
        return v

    def lift(self, v: Tensor) -> Tensor:
        return self.graph.pull(self.solve(v))


# What a flow asks of D; vectors v in output space are (QN,). `rank`; `condition` of G on its range, a bound
# from above if `certified`, else an estimate; `lost` (QN - rank, QN), orthonormal directions outside it;
# `solve` G^+ v; `project` P v; `lift` D^+ v, (K,).
Range = FullRange | SpectralRange | ConjugateGradientRange


@dataclass(frozen=True, eq=False)
class Factorisations:
    """How D is factorised along a flow."""

    map: OutputMap
    rcond: float
    tolerance: float  # of conjugate gradients, relative
    dense: bool  # whether (QN, QN) matrices fit into memory

    def at(self, theta: Tensor, graph: Graph, rank: int | None = None) -> Range:
        """The range at parameters (K,); `rank` keeps so many directions, whatever their singular values."""
        n, k = self.map.count, self.map.parameters
        if not self.dense:
            return self._matrix_free(theta, graph)
        if n <= k and rank in (None, n):
            full = self._full(theta, graph)
            if full is not None and full.condition <= LIMIT:
                return full
        return self.spectral(theta, rank)

    def _full(self, theta: Tensor, graph: Graph) -> FullRange | None:
        """From a Cholesky factorisation, or None if full rank cannot be certified."""
        gram = self.map.gram(theta)
        factor, info = torch.linalg.cholesky_ex(gram)
        if int(info):
            return None
        inverse = torch.linalg.matrix_norm(torch.cholesky_inverse(factor))
        epsilon = torch.finfo(gram.dtype).eps
        error = ROUNDING * len(gram) * epsilon * gram.trace()
        least, largest = 1 / inverse - error, torch.linalg.matrix_norm(gram) + error
        bound = torch.stack([least, largest]).tolist()
        if not 2 * bound[0] > 1 / float(inverse):  # NaN too
            return None
        return FullRange(factor, graph, bound[1] / bound[0])

    def spectral(self, theta: Tensor, rank: int | None = None) -> SpectralRange:
        """From D itself: QR first, so that only a small matrix is decomposed."""
        jacobian = self.map.jacobian(theta)
        if not bool(jacobian.isfinite().all()):
            return _nowhere(jacobian)
        if jacobian.shape[0] <= jacobian.shape[1]:
            q, r = torch.linalg.qr(jacobian.T)
            left, values, right = torch.linalg.svd(r.T)
            right = right @ q.T
        else:
            q, r = torch.linalg.qr(jacobian)
            left, values, right = torch.linalg.svd(r)
            left = q @ left
        if rank is None:
            rank = int((values > self.rcond * values[0]).sum())
        return SpectralRange(left, values, right, rank)

    def _matrix_free(self, theta: Tensor, graph: Graph) -> ConjugateGradientRange:
        shape = graph.outputs.shape

        def product(v: Tensor) -> Tensor:
            return graph.push(graph.pull(v.view(shape))).flatten()

        precondition = _by_blocks(self.map, theta)
        return ConjugateGradientRange(product, precondition, graph, self.map.count, self.tolerance)


def factorisations(map: OutputMap, rcond: float, tolerance: float) -> Factorisations:
    """How D is factorised: by matrices if some of them fit into the memory."""
    size = torch.finfo(map.run.points.dtype).bits // 8
    dense = MATRICES * size * map.count**2 <= map.memory
    return Factorisations(map, rcond, min(1e-2 * tolerance, 1e-2), dense)


def _nowhere(jacobian: Tensor) -> SpectralRange:
    """For stages of a step that went too far: velocities are NaN, so that the step is shortened."""
    n, k = jacobian.shape
    small = min(n, k)
    nan = jacobian.new_full
    return SpectralRange(
        nan((n, small), math.nan), nan((small,), math.nan), nan((small, k), math.nan), small
    )


def _by_blocks(map: OutputMap, theta: Tensor) -> Callable[[Tensor], Tensor]:
    """The inverse of the diagonal blocks of G, each of some examples, as many as a share of memory holds."""
    run = map.run.at(map.unpack(theta))
    n, q = len(run.points), run.outputs
    size = theta.element_size() * n * q**2
    count = min(max(map.memory // (4 * size), 1), max(BLOCK // q, 1))
    factors = []
    for start in range(0, n, count):
        rows = run.gradients(run.points[start : start + count])
        block = rows.inner(rows).reshape(len(rows) * q, -1)
        shift = torch.finfo(theta.dtype).eps * block.trace()
        block.diagonal().add_(shift)
        factors.append(torch.linalg.cholesky_ex(block)[0])

    def precondition(v: Tensor) -> Tensor:
        parts = v.split([len(factor) for factor in factors])
        pairs = zip(parts, factors, strict=True)
        return torch.cat([torch.cholesky_solve(p[:, None], factor)[:, 0] for p, factor in pairs])

    return precondition


def conjugate_gradients(
    product: Callable[[Tensor], Tensor],
    v: Tensor,
    precondition: Callable[[Tensor], Tensor],
    tolerance: float,
) -> tuple[Tensor, float]:
    """Solve G z = v to a relative residual, and estimate the condition number of the preconditioned G.

    The estimate is the ratio of the extreme Ritz values, which lie inside the spectrum: a lower bound. No
    convergence is refused.
    """
    z, residual = torch.zeros_like(v), v
    correction = precondition(residual)
    direction, energy = correction, residual @ correction
    goal, patience = tolerance * float(torch.linalg.vector_norm(v)), PLATEAU + len(v) // 10
    best, since = math.inf, 0
    diagonal: list[float] = []
    beside: list[float] = []
    last = math.nan
    while (size := float(torch.linalg.vector_norm(residual))) > goal:
        best, since = (size, 0) if size < best else (best, since + 1)
        if since > patience or not math.isfinite(size):
            raise InputError(
                f"Conjugate gradients stop at a relative residual of {best / goal * tolerance:.1e} after "
                f"{len(diagonal)} products, with a condition number of at least "
                f"{_ritz_ratio(diagonal, beside):.1e}: D D^T is too ill-conditioned for products alone. "
                "Give more memory, so that it can be factorised, more parameters, or a larger tolerance."
            )
        moved = product(direction)
        step = energy / (direction @ moved)
        z, residual = z + step * direction, residual - step * moved
        correction = precondition(residual)
        energy, before = residual @ correction, energy
        ratio = energy / before
        direction = correction + ratio * direction
        alpha, beta = float(step), float(ratio)
        diagonal.append(1 / alpha + (beside[-1] ** 2 * last if diagonal else 0.0))
        beside.append(math.sqrt(max(beta, 0.0)) / alpha)
        last = alpha
    return z, _ritz_ratio(diagonal, beside)


def _ritz_ratio(diagonal: list[float], beside: list[float]) -> float:
    if not diagonal:
        return 1.0
    off = torch.tensor(beside[: len(diagonal) - 1], dtype=torch.float64, device="cpu")
    matrix = torch.diag(torch.tensor(diagonal, dtype=torch.float64, device="cpu"))
    matrix = matrix + torch.diag(off, 1) + torch.diag(off, -1)
    values = torch.linalg.eigvalsh(matrix)
    return float(values[-1] / values[0]) if values[0] > 0 else math.inf
