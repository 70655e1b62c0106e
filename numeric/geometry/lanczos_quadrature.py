r"""Traces of logarithms by random directions: Gauss and Radau rules of Lanczos, and what they leave open.

With $A = M^T M$ of size k and z from $N(0, 1_k)$ the mean of $\tfrac{k}{2} u^T \log(A) u$ over directions
$u = z/|z|$ is $\tfrac12 \mathrm{tr} \log A$. Golub-Kahan steps from u make M bidiagonal, and its singular
values are the nodes of Gauss' rule for the measure that u has on the spectrum. Even derivatives of the
logarithm are negative and odd ones positive, so Gauss' rule is never too small, and Radau's rule with a node
below the spectrum is never too large (Golub and Meurant 2010, ch. 6).

The node comes from what probes must see. At the smallest eigenvalue they have the mass
$\sum_i (q\cdot z_i)^2$, which is chi-squared; but at a no measure with the moments found so far can have
more than $1/\sum_j p_j(a)^2$, with its orthonormal polynomials. So a is below the spectrum as soon as the
latter is below a small quantile of the former.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch
from scipy.special import gammaincinv
from torch import Tensor

__all__ = ["Bidiagonal", "Products", "bidiagonalise"]

RISK = 1e-6  # that the lower end of the spectrum is not below it
PLACES = 64  # tried for it at a time
FIRST = 6  # steps after which it is first asked whether there are enough

Products = Callable[[Tensor], Tensor]  # one row for each row


@dataclass(frozen=True, eq=False)
class Bidiagonal:
    """M on the Krylov spaces of N probes at each of n points, after m steps."""

    diagonal: Tensor  # (n, N, m)
    above: Tensor  # (n, N, m), of which the last leads out of the space; 0 where nothing does
    size: Tensor  # (n, 1), k
    tolerance: float  # singular values below so much of the largest are rounding

    def first(self, probes: int, steps: int | None = None) -> Bidiagonal:
        """Of so many probes only, or after fewer steps."""
        diagonal, above = (part[:, :probes, :steps] for part in (self.diagonal, self.above))
        return Bidiagonal(diagonal, above, self.size, self.tolerance)

    @cached_property
    def scale(self) -> Tensor:
        """Of the order of the largest singular value, (n, 1, 1)."""
        largest = torch.maximum(self.diagonal, self.above).amax((1, 2), keepdim=True)
        return torch.where(largest > 0, largest, 1)

    @cached_property
    def matrix(self) -> Tensor:
        """Upper bidiagonal, in units of `scale`: (n, N, m, m)."""
        inner = torch.diag_embed(self.above[..., :-1] / self.scale, 1)
        return torch.diag_embed(self.diagonal / self.scale) + inner

    @cached_property
    def rule(self) -> tuple[Tensor, Tensor]:
        """Nodes, descending, and weights of Gauss' rule for singular values in units of `scale`."""
        return _rule(self.matrix)

    @cached_property
    def floor(self) -> Tensor:
        """The squared singular value that is rounding, in units of the squared scale: (n,)."""
        return (self.tolerance * self.rule[0][..., 0].amax(1)).square()

    def deficient(self) -> Tensor:
        """Where a singular value that some probe has found is 0 to rounding, (n,)."""
        return ~(self.rule[0][..., -1].amin(1).square() > self.floor)

    def complete(self) -> Tensor:
        """Where no step leads out of the spaces any more, (n,)."""
        return (self.above == 0).any(2).all(1)

    def gauss(self) -> Tensor:
        """For each probe the rule for $\\tfrac12 \\mathrm{tr} \\log A$, never too small: (n, N)."""
        return self._half_trace(*self.rule)

    def spread(self) -> Tensor:
        """The standard deviation over directions that each rule tells, (n, N)."""
        nodes, weights = self.rule
        logs = nodes.log()
        mean = (weights * logs).sum(-1, keepdim=True)
        return (2 * self.size * (weights * (logs - mean).square()).sum(-1)).sqrt()

    def radau(self, node: Tensor) -> Tensor:
        """The rule with a further node (n,), below the spectrum in units of the squared scale: (n, N).

        It is never too large.
        """
        last = _pivots(self.diagonal / self.scale, self.above / self.scale, node[:, None])[1]
        m = self.diagonal.shape[-1]
        extended = self.matrix.new_zeros(*self.matrix.shape[:2], m + 1, m + 1)
        extended[..., :m, :m] = self.matrix
        extended[..., m - 1, m] = self.above[..., -1] / self.scale[..., 0]
        extended[..., m, m] = (-last).clamp(min=0).sqrt()
        return self._half_trace(*_rule(extended.nan_to_num(0)))  # NaN where the rank is deficient

    def _half_trace(self, nodes: Tensor, weights: Tensor) -> Tensor:
        logs = nodes.clamp(min=torch.finfo(nodes.dtype).tiny).log() + self.scale.log()
        return self.size * (weights * logs).sum(-1)

    def lower_end(self, squares: Tensor) -> Tensor:
        """A number above `floor` and below the spectrum in units of the squared scale, (n,); else 0.

        At the risk `RISK`; `squares` are those of the lengths of the probes, (n, N).
        """
        diagonal, above = self.diagonal / self.scale, self.above / self.scale
        low, high = self.floor.log(), 2 * self.rule[0][..., -1].amin(1).log()
        least = 2 * gammaincinv(squares.shape[1] / 2, RISK)  # of the mass that probes have there
        end = torch.full_like(low, -math.inf)
        for _ in range(2):
            steps = torch.arange(PLACES).to(low) / PLACES
            tried = low[:, None] + steps * (high - low)[:, None]  # (n, PLACES)
            logs, _ = _pivots(diagonal[:, None], above[:, None], tried.exp()[..., None])
            below = (squares[:, None] * (-logs).exp()).sum(-1) < least  # False for NaN
            end = torch.where(below & (tried < high[:, None]), tried, -math.inf).amax(1)
            high = torch.where(end > -math.inf, end + (high - low) / PLACES, high)
            low = torch.where(end > -math.inf, end, low)
        return end.exp()


def bidiagonalise(
    ahead: Products, back: Products, starts: Tensor, steps: int, tolerance: float,
    enough: Callable[[Tensor, Tensor], bool] | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Golub-Kahan steps from unit vectors, with both bases kept orthogonal to the last digits.

    `ahead` takes vectors (c, k) to M u, and `back` the results to M^T v. Returned are the diagonal and
    what is above it, (c, m) each, in float64 on the host; after some of the steps `enough` is asked
    whether that is enough.
    """
    u, v = starts, ahead(starts)
    count = len(u)
    lefts, rights = (w.new_empty(count, steps, w.shape[1]) for w in (u, v))
    entries: list[Tensor] = []  # on the diagonal and above it by turns
    done, scale = u.new_zeros(count, dtype=torch.bool), u.new_zeros(count)
    before = torch.zeros_like(v)
    check = FIRST
    for j in range(steps):
        v = _orthogonal(ahead(u) if j else v, before, rights[:, :j])
        v, length, scale = _unit(v, scale, tolerance)
        # What follows a complete space is not reached from the start, and must not look singular.
        entries.append(torch.where(done, entries[0] if j else length, length))
        lefts[:, j], rights[:, j] = u, v
        u = _orthogonal(back(v), length[:, None] * u, lefts[:, : j + 1])
        u, length, scale = _unit(u, scale, tolerance)
        entries.append(length)
        done = done | (length == 0)
        before = length[:, None] * v
        if enough is not None and j + 1 == check:
            check += check // 2
            if enough(*_by_turns(entries)):
                break
    return _by_turns(entries)


def _by_turns(entries: list[Tensor]) -> tuple[Tensor, Tensor]:
    table = torch.stack(entries, 1).double().cpu()
    return table[:, ::2], table[:, 1::2]


def _orthogonal(w: Tensor, removed: Tensor, basis: Tensor) -> Tensor:
    """w without what is `removed` and, twice for the sake of rounding, without the basis (c, j, k)."""
    w = w - removed
    for _ in range(2):
        w = w - ((basis @ w[:, :, None]).mT @ basis)[:, 0]
    return w


def _unit(w: Tensor, scale: Tensor, tolerance: float) -> tuple[Tensor, Tensor, Tensor]:
    """Directions, lengths, and the largest length so far; 0 where the length is rounding."""
    length = torch.linalg.vector_norm(w, dim=1)
    scale = torch.maximum(scale, length)
    length = torch.where(length <= tolerance * scale, 0, length)  # NaN stays
    inverse = torch.where(length == 0, 0, 1 / length)
    return w * inverse[:, None], length, scale


def _rule(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """Nodes and weights of the measure that the first unit vector has on the singular values."""
    _, nodes, right = torch.linalg.svd(matrix)
    return nodes, right[..., 0].square()


def _pivots(diagonal: Tensor, above: Tensor, shift: Tensor) -> tuple[Tensor, Tensor]:
    """By the quotient-difference transform of $T - a = R^T R - a$, which keeps the digits of small pivots.

    Returned are $\\log \\sum_j p_j(a)^2$ and the last difference: diagonals (..., N, m) and shifts a that
    broadcast to (..., N).
    """
    difference = -shift + torch.zeros_like(diagonal[..., 0])
    logs = torch.zeros_like(difference)
    total = torch.zeros_like(difference)
    for q, e in zip(diagonal.unbind(-1), above.unbind(-1), strict=True):
        pivot = q.square() + difference
        logs = logs + 2 * (pivot.log() - (q * e).log())
        total = torch.logaddexp(total, logs)
        difference = e.square() * difference / pivot - shift
    return total, difference
