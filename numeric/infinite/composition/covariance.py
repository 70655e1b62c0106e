"""Covariances of a layer's signals at pairs of positions, and their tangent kernel, for a tile of pairs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from numeric.infinite.composition.signal import Scales, Signal
from numeric.infinite.groups import RotoTranslations
from numeric.infinite.spheres import RotationGrid

__all__ = ["Covariance"]


@dataclass(frozen=True, eq=False)
class Covariance:
    """Covariances k of signals x (n) and y (m), and the tangent kernel theta, None while it is 0.

    With `pairs`, all pairs of positions are kept, in shape (orbit, n, *space, m, *space); else only equal
    positions, (1, *space, n, m). The orbit is that of y: entry g is for x and rho(g) y, entry 0 for y itself;
    over a RotationGrid it has the grid's nodes, and space is (). With `own`, each signal is compared with
    itself alone: the axis m has length 1 and stands for the same signals as n does.
    With `same`, also random masks are the same, so that k at equal positions is the variance. With
    `theta_only`, no layer after the next one reads k, in whose place theta may then stand.
    """

    k: Tensor
    theta: Tensor | None
    signal: Signal
    pairs: bool
    tangent: bool = True  # whether theta is asked for
    own: bool = False
    same: bool = False
    theta_only: bool = False

    @classmethod
    def of(
        cls, x: Tensor, y: Tensor | None, pairs: bool, tangent: bool, same: bool = True
    ) -> Covariance:
        """The covariance of inputs (n, channels, *space) and (m, channels, *space); y None: x with itself."""
        n, c, *space = x.shape
        signal, d = Signal(tuple(space), c), len(space)
        if y is None:
            u = x.reshape(n, c, -1)  # (n, c, p)
            if pairs:
                k = ((u / c).mT @ u).reshape(1, n, *space, 1, *space)
            else:
                k = torch.linalg.vecdot(u, u, dim=1).div_(c).T.contiguous().view(1, *space, n, 1)
            return cls(k, None, signal, pairs, tangent, own=True, same=same)
        u, v = x.movedim(1, -1), y.movedim(1, -1)  # (n, *space, c)
        if pairs:
            k = u.reshape(-1, c) @ (v.reshape(-1, c) / c).T
            k = k.reshape(1, n, *space, len(y), *space)
        else:
            u, v = (part.movedim(0, d).reshape(-1, len(part), c) for part in (u, v))
            k = (u @ v.mT).div_(c).reshape(1, *space, n, len(y))
        return cls(k, None, signal, pairs, tangent)

    @property
    def n(self) -> int:
        return self.k.shape[1 if self.pairs else -2]

    @property
    def m(self) -> int:
        return self.k.shape[len(self.signal.space) + 2 if self.pairs else -1]

    @property
    def row_axes(self) -> tuple[int, ...]:
        """Axes of positions of x, or of both where they are equal."""
        d = len(self.signal.space)
        return tuple(range(2, 2 + d)) if self.pairs else tuple(range(1, 1 + d))

    @property
    def column_axes(self) -> tuple[int, ...]:
        """Axes of positions of y; none where they are those of x."""
        d = len(self.signal.space)
        return tuple(range(3 + d, 3 + 2 * d)) if self.pairs else ()

    def map(
        self, linear: Callable[[Tensor], Tensor], signal: Signal, **changes: bool
    ) -> Covariance:
        """The covariance after a linear map of k and theta that needs no weights."""
        if self.theta is self.k:
            both = linear(self.k)
            return replace(self, k=both, theta=both, signal=signal, **changes)
        theta = None if self.theta is None else linear(self.theta)
        return replace(self, k=linear(self.k), theta=theta, signal=signal, **changes)

    def weighted(
        self, sums: Covariance, scales: Scales, numbers: int, copies: int = 1
    ) -> Covariance:
        r"""After weights: $K' = \sigma_w^2 \bar K + \sigma_b^2$, $\Theta' = \text{rates}\cdot(\bar K, 1) +
        \sigma_w^2\bar\Theta$.

        `sums` holds sums over the filter, of so many `numbers`, which are overwritten; means have a bar. Each
        number may stand for several `copies` that the fan-in counts. This covariance is before the filter.
        """
        signal = self.signal
        scale, bias = scales.sigma_w**2 / numbers, scales.sigma_b**2
        k, theta = sums.k, sums.theta
        if not self.tangent:
            return replace(sums, k=_scaled(k, scale, bias))
        weights, biases = scales.rates(signal.channels, numbers * copies * signal.copies)
        if (weights, biases) == (scales.sigma_w**2, bias):
            k = _scaled(k, scale, bias)
            theta = k.clone() if theta is None else torch.add(k, theta, alpha=scale, out=theta)
        else:
            own = torch.add(_constant(biases, k), k, alpha=weights / numbers)
            theta = own if theta is None else torch.add(own, theta, alpha=scale, out=theta)
            k = _scaled(k, scale, bias)
        return replace(sums, k=k, theta=theta)

    def matrices(self, k: Tensor) -> Tensor:
        """k as a batch of matrices (b, R, C), of which rows and columns are signals, positions or both."""
        n, m, p = self.n, self.m, self.signal.positions
        if self.pairs:
            return k.view(-1, p, p) if self.own else k.view(-1, n * p, m * p)
        return k.view(-1, 1, 1) if self.own else k.view(-1, n, m)

    def row_values(self, values: Tensor) -> Tensor:
        """Values of x, (n, *space) or flat, for rows of `matrices`: (b, R, 1), or (1, R, 1) for all."""
        n, p = self.n, self.signal.positions
        if self.pairs:
            if not self.own:
                return values.reshape(1, n * p, 1)
            return values.reshape(1, n, p).expand(len(self.k), n, p).reshape(-1, p, 1)
        return values.reshape(n, p).T.reshape(-1, 1 if self.own else n, 1)

    def column_values(self, values: Tensor) -> Tensor:
        """Values of y, (m, *space) or flat, for columns of `matrices`: (b, 1, C); of an orbit, moved."""
        p, over = self.signal.positions, self.signal.over
        count = values.numel() // p
        if self.pairs:
            if isinstance(over, RotoTranslations):
                image = values.reshape(count, *self.signal.space)
                values = torch.stack([over.turn(g, image) for g in range(over.order)])
            elif isinstance(over, RotationGrid):
                values = values.expand(over.order, count)  # the same for all rotations
            return values.reshape(-1, 1, p if self.own else count * p)
        return values.reshape(count, p).T.reshape(-1, 1, 1 if self.own else count)

    def equal_positions(self) -> Covariance:
        """Without pairs of different positions; of an orbit only the signals themselves are then needed."""
        if not self.pairs:
            return self
        n, m, p, space = self.n, self.m, self.signal.positions, self.signal.space

        def cut(k: Tensor) -> Tensor:
            diagonal = k[0].reshape(n, p, m, p).diagonal(dim1=1, dim2=3)  # (n, m, p)
            return diagonal.movedim(2, 0).reshape(1, *space, n, m).contiguous()

        return self.map(cut, self.signal, pairs=False)

    def clone(self) -> Covariance:
        """A copy that a layer may overwrite."""
        return self.map(Tensor.clone, self.signal)

    def variances(self) -> Tensor:
        """The variances in an `own` covariance, (n, *space)."""
        return self.equal_positions().k[0, ..., 0].movedim(-1, 0)


def _scaled(k: Tensor, scale: float, bias: float) -> Tensor:
    """scale k + bias, in place and in one pass."""
    return torch.add(_constant(bias, k), k, alpha=scale, out=k)


def _constant(value: float, like: Tensor) -> Tensor:
    return torch.tensor(value, dtype=like.dtype, device=like.device)
