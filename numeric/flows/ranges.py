r"""The range of the Jacobian D from a factorisation: $D^+ v$, the projection P, its rank and condition.

Three ways, of which `Factorisations.at` takes the first that is safe:

* Cholesky of $G = D D^T$, with a bound of its condition number that rounding cannot invalidate:
  $1/\lambda_{min}(L L^T) \le |(L L^T)^{-1}|_F$, and $|G - L L^T| \le 4 n \epsilon\, tr\, G$.
* A QR and a singular value decomposition of D itself, where that bound is above `LIMIT`: G has half of D's
  digits. Directions whose singular value is below `rcond` times the largest are lost. Where the memory does
  not hold D, `Unsolved` is raised.
* Conjugate gradients by products with D and $D^T$, where QN is too large for a matrix, preconditioned by
  diagonal blocks of G. The condition number of G, not of the preconditioned one, is an estimate from below:
  by powers of G at the large end, by inverse iteration at the small one. Where the gradients stall,
  `Unsolved` is raised with the direction that they run away in.

Limits are written for float64; `for_dtype` takes the same share of the digits in other dtypes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor

from numeric.flows.output_map import Graph, OutputMap
from numeric.inputs import InputError, fraction

__all__ = [
    "NEAR", "ConjugateGradientRange", "Factorisations", "FullRange", "Range", "SpectralRange", "Unsolved",
    "factorisations", "for_dtype", "require_rcond",
]  # fmt: skip

LIMIT = 1e10  # condition number of G from which D itself is factorised, in float64
NEAR = 1e12  # condition number of G that is reported as near rank loss, in float64
RCOND = 1e-7  # of singular values of D, below which directions are lost, in float64
ROUNDING = 4  # of G and of its Cholesky factor, in units of n epsilon trace
MATRICES = 4  # of size (QN, QN) that a factorisation holds at once
JACOBIANS = 4  # of size (QN, K) that a decomposition of D holds at once
BLOCK = 500  # outputs in a diagonal block of G that is factorised as preconditioner
PLATEAU = 100  # iterations without a better residual, which may rise on the way; QN / 10 more
POWERS, INVERSES = 12, 3  # iterations that estimate the ends of the spectrum of G
ROUGH = 1e-2  # relative residual of inverse iterations, which damp errors in strong directions


def for_dtype(limit: float, dtype: torch.dtype) -> float:
    """A limit that is written for float64, with the same share of the digits of another dtype.

    >>> for_dtype(1e-7, torch.float64), round(for_dtype(1e-7, torch.float32), 4)
    (1e-07, 0.0008)
    """
    share = math.log(torch.finfo(dtype).eps) / math.log(torch.finfo(torch.float64).eps)
    return limit if share == 1 else limit**share


def require_rcond(rcond: float | None, dtype: torch.dtype) -> float:
    """The share of the largest singular value below which directions are lost; None: `RCOND`."""
    return for_dtype(RCOND, dtype) if rcond is None else fraction("rcond", rcond)


class Unsolved(InputError):
    """D has no velocity by the means at hand; `direction` (QN,) is nearly lost, or None if none is known."""

    def __init__(self, why: str, direction: Tensor | None = None, ratio: float = math.nan) -> None:
        super().__init__(why)
        self.direction, self.ratio = direction, ratio


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
    def ratio(self) -> float:
        return self.condition**-0.5

    @property
    def weakest(self) -> Tensor:
        return torch.linalg.svd(self.factor)[0][:, -1]

    @property
    def lost(self) -> Tensor:
        return self.factor.new_zeros(0, self.rank)

    def solve(self, v: Tensor) -> Tensor:
        return torch.cholesky_solve(v.view(len(v), -1), self.factor).view_as(v)

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
        if len(self.values) < len(self.left) or not float(self.values[-1]):
            return math.inf
        return float((self.values[0] / self.values[-1]) ** 2)

    @property
    def ratio(self) -> float:
        return self.ratio_at(self.rank - 1) if self.rank else 1.0  # nothing is left to lose

    def ratio_at(self, place: int) -> float:
        """Of the singular value at a place to the largest; 0 where parameters are fewer, or all are 0."""
        if place >= len(self.values) or not float(self.values[0]):
            return 0.0
        return float(self.values[place] / self.values[0])

    @property
    def lost(self) -> Tensor:
        basis = self.left[:, : self.rank]
        complete, _ = torch.linalg.qr(basis, mode="complete")
        return complete[:, self.rank :].T

    @property
    def weakest(self) -> Tensor:
        return self.left[:, self.rank - 1]

    def solve(self, v: Tensor) -> Tensor:
        r = self.rank
        squares = self.values[:r].square()[:, None]
        columns = self.left[:, :r].T @ v.view(len(v), -1) / squares
        return (self.left[:, :r] @ columns).view_as(v)

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

    @property
    def condition(self) -> float:
        return self.ratio**-2 if self.ratio else math.inf

    @cached_property
    def ratio(self) -> float:
        """The ratio of |D^T v| at the weakest direction to that at the strongest: an estimate from above."""
        v = self._probe
        for _ in range(POWERS):
            v = self.product(v / torch.linalg.vector_norm(v))
        largest, least = self._gain(v), self._gain(self.weakest)
        return least / largest if largest else 0.0

    @cached_property
    def weakest(self) -> Tensor:
        v = self._probe / torch.linalg.vector_norm(self._probe)
        for _ in range(INVERSES):
            v, remaining = conjugate_gradients(self.product, v, self.precondition, ROUGH)
            v = v / torch.linalg.vector_norm(v)
            if not remaining <= ROUGH:  # it ran away in the weakest direction
                break
        return v

    @property
    def _probe(self) -> Tensor:
        """A vector of no structure."""
        like = self.graph.outputs
        return torch.arange(1, self.rank + 1, device=like.device).to(like).sin()

    def _gain(self, v: Tensor) -> float:
        size = torch.linalg.vector_norm(v)
        return float(torch.linalg.vector_norm(self.graph.pull(v / size))) if size else 0.0

    @property
    def lost(self) -> Tensor:
        return self.graph.outputs.new_zeros(0, self.rank)

    def solve(self, v: Tensor) -> Tensor:
        if v.ndim > 1:
            return torch.stack([self.solve(column) for column in v.T], 1)
        solution, remaining = conjugate_gradients(
            self.product, v, self.precondition, self.tolerance
        )
        if not remaining <= self.tolerance:
            raise Unsolved(
                f"Conjugate gradients stop at a relative residual of {remaining:.1e}, with a condition "
                f"number of at least {self.condition:.1e}: D D^T is too ill-conditioned for products alone. "
                "Give more memory, so that it can be factorised, more parameters, or a larger tolerance.",
                self.weakest,
                self.ratio,
            )
        return solution

    def project(self, v: Tensor) -> Tensor:
        return v

    def lift(self, v: Tensor) -> Tensor:
        return self.graph.pull(self.solve(v))


# What a flow asks of D; vectors v in output space are (QN,), or columns (QN, m) for `solve` and `project`.
# `rank`; `condition` of G with all its directions, a bound from above if `certified`, else an estimate from
# below; `ratio` of the smallest singular value of D that is kept to the largest, 1 if none is; `weakest`
# (QN,), its left singular vector; `lost` (QN - rank, QN), orthonormal directions outside the range; `solve`
# G^+ v; `project` P v; `lift` D^+ v, (K,).
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
            if full is not None and full.condition <= for_dtype(LIMIT, theta.dtype):
                return full
        return self.spectral(theta, rank)

    def ratio(self, theta: Tensor, rank: int) -> float:
        """The ratio of the last of so many singular values of D to the first, to the digits that D has."""
        if rank == self.map.count <= self.map.parameters:
            squares = torch.linalg.eigvalsh(self.map.gram(theta))
            share = float(squares[0] / squares[-1])
            if share * for_dtype(LIMIT, theta.dtype) > 1:
                return math.sqrt(share)
        return self.spectral(theta, rank).ratio

    def _full(self, theta: Tensor, graph: Graph) -> FullRange | None:
        """The range from a Cholesky factorisation, or None if full rank cannot be certified."""
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
        """The range from D itself: QR first, so that only a small matrix is decomposed."""
        n, k = self.map.count, self.map.parameters
        needed = JACOBIANS * theta.element_size() * n * k
        if needed > self.map.memory:
            raise Unsolved(
                f"D D^T is too ill-conditioned to be factorised, and D itself, ({n}, {k}), takes "
                f"{needed / 1e9:.2g} GB, but memory = {self.map.memory / 1e9:.2g} GB was given: give more."
            )
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
    """The range at a stage that went too far: velocities are NaN, so that the step is shortened."""
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
    """Solve G z = v; beside z its relative residual, above the tolerance if the gradients stalled."""
    z, residual = torch.zeros_like(v), v
    correction = precondition(residual)
    direction, energy = correction, residual @ correction
    target, patience = float(torch.linalg.vector_norm(v)), PLATEAU + len(v) // 10
    best, since = math.inf, 0
    while (size := float(torch.linalg.vector_norm(residual))) > tolerance * target:
        best, since = (size, 0) if size < best else (best, since + 1)
        if since > patience or not math.isfinite(size):
            return z, best / target
        image = product(direction)
        step = energy / (direction @ image)
        following = z + step * direction
        if not bool(following.isfinite().all()):
            return z if bool(z.any()) else direction, best / target
        z, residual = following, residual - step * image
        correction = precondition(residual)
        energy, before = residual @ correction, energy
        direction = correction + (energy / before) * direction
    return z, size / target if target else 0.0
