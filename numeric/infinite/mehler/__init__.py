r"""Averages $E[\phi(u)\phi(v)]$ over whole Gram matrices for any phi, each entry to a known accuracy.

With $\phi(\sqrt V t) = \sum_k a_k(V)\,He_k(t)/\sqrt{k!}$ and $\rho = k_{xy}/\sqrt{k_{xx}k_{yy}}$,
Mehler's formula is $K = \sum_k a_k(k_{xx})\,a_k(k_{yy})\,\rho^k$, and what follows the order M is at most
$|\rho|^{M+1}\sqrt{R_M(k_{xx})R_M(k_{yy})}$ with $R_M = E[\phi^2] - \sum_{k\le M}a_k^2$. Where that is
too much, near $|\rho| = 1$, single entries are integrated.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from numeric.infinite.mehler.direct import integrate
from numeric.infinite.mehler.expansion import TOLERANCE, Expansion, Function, attainable, expand
from numeric.infinite.mehler.series import correlation, on_list, on_tile, pairs
from numeric.inputs import InputError

__all__ = ["Expansion", "Mehler", "expand", "pairs"]

LISTED = 16  # how many times a term costs more for single entries than on a whole tile
CELLS = 2**22  # coefficients of single entries held at once


@dataclass(frozen=True)
class Mehler:
    """Two-point averages of phi, each accurate to tolerance times sqrt(E[phi(u)^2] E[phi(v)^2]).

    phi is any function of tensors; it must be smooth on the scale 1 but for its kinks, where it
    may bend or jump. In float32 the tolerance is at least what rounding leaves.
    """

    phi: Function
    kinks: tuple[float, ...] = ()
    tolerance: float = TOLERANCE
    order: int = 2**11  # the most terms of a series

    def __post_init__(self) -> None:
        object.__setattr__(self, "kinks", tuple(float(b) for b in self.kinks))
        if not callable(self.phi) or not self.tolerance > 0 or self.order < 1:
            raise InputError(
                f"Averages need a function of tensors, a tolerance above 0 and an order of at least 1, "
                f"but {self.phi!r}, {self.tolerance} and {self.order} were given."
            )

    def rows(self, V: Tensor) -> Expansion:
        """Hermite coefficients for each variance (n,), the input of `pairs`."""
        return expand(self.phi, V, self.kinks, self.tolerance, self.order)

    def pairs(self, rows: Expansion, cols: Expansion, kxy: Tensor) -> Tensor:
        """K (n, m) from covariances (n, m), or an ArithmeticError that says what was reached.

        Most entries need few terms. All are summed to one order, chosen so that the total cost is least
        together with the entries that must then be recomputed to the highest order.
        """
        rho = correlation(rows, cols, kxy)
        overlap = rho.detach().abs()
        limits = self._limits(rows, cols)
        most = max(limits)
        beyond = {order: int((overlap > limit).sum()) for order, limit in limits.items()}
        order = min(limits, key=lambda k: k * rho.numel() + LISTED * most * beyond[k])
        K = on_tile(rows, cols, rho, order)
        i, j = (overlap > limits[order]).nonzero(as_tuple=True)
        hard = overlap[i, j] > limits[most]
        for a, b in zip(i[~hard].split(CELLS // most), j[~hard].split(CELLS // most), strict=True):
            K = K.index_put((a, b), on_list(rows[a], cols[b], rho[a, b]))
        if hard.any():
            a, b = i[hard], j[hard]
            K = K.index_put((a, b), self._by_quadrature(rows[a], cols[b], kxy[a, b]).to(K))
        return K

    def listed(self, rows: Expansion, cols: Expansion, kxy: Tensor, det: Tensor) -> Tensor:
        """As `pairs` for each row with the column of the same index, (n,), given their determinants."""
        scale = (rows.V * cols.V).sqrt()
        rho = torch.where(scale > 0, kxy / torch.where(scale > 0, scale, 1.0), 0.0).clamp(-1, 1)
        K, order = on_list(rows, cols, rho), min(rows.order, cols.order)
        left_out = rho.abs() ** (order + 1) * rows.tail_beyond(order) * cols.tail_beyond(order)
        hard = left_out > attainable(self.tolerance, rho.dtype) * rows.size * cols.size
        if hard.any():
            integrated = self._by_quadrature(rows[hard], cols[hard], kxy[hard], det[hard])
            K = K.index_put((hard,), integrated.to(K))
        return K

    def _limits(self, rows: Expansion, cols: Expansion) -> dict[int, float]:
        """The largest |rho| at which the orders 16, 32, ... are enough for each row and column."""
        most = min(rows.order, cols.order)
        orders = [k for k in (2**i for i in range(4, 30)) if k < most] + [most]
        allowed, limits = attainable(self.tolerance, rows.V.dtype), {}
        parts = [(s.tails[:, orders] / s.size[:, None]).nan_to_num(0.0) for s in (rows, cols)]
        worst = parts[0].amax(0) * parts[1].amax(0)
        for order, rest in zip(orders, worst.tolist(), strict=True):
            limits[order] = (allowed / rest) ** (1 / (order + 1)) if rest > allowed else math.inf
        return limits

    def _by_quadrature(
        self, rows: Expansion, cols: Expansion, kxy: Tensor, det: Tensor | None = None
    ) -> Tensor:
        host = "cpu" if kxy.device.type == "mps" else kxy.device
        covariances = (rows.V, kxy, cols.V, rows.size * cols.size)
        kxx, kxy, kyy, size = (part.to(host, torch.float64) for part in covariances)
        det = None if det is None else det.to(host, torch.float64)
        allowed = attainable(self.tolerance, rows.V.dtype)
        return integrate(self.phi, self.kinks, kxx, kxy, kyy, size, allowed, det)
