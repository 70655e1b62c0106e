r"""Self-attention with logits divided by the width: $K' = \sigma_w^2\,A_x K A_y^T + \sigma_b^2$.

With queries equal to keys and logits $q_p\cdot q_{p'}/n$, the law of large numbers fixes the logits at
$\sigma_q^2 K_{p,p'}(x, x)$ in the limit, and so the attention $A_x$, their softmax over p'. (Hron, Bahri,
Sohl-Dickstein, Novak, Infinite attention, 2020, section 3.2.)
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from numeric.infinite.composition.covariance import Covariance
from numeric.infinite.composition.finite import Draw, Weights
from numeric.infinite.composition.layer import NeededCovariances
from numeric.infinite.composition.signal import Scales, Signal, require_scales
from numeric.inputs import InputError, positive

__all__ = ["SelfAttention"]


@dataclass(frozen=True)
class SelfAttention:
    r"""One head: values are averaged over positions by attention, with queries equal to keys.

    $K' = \sigma_w^2\,A_x K A_y^T + \sigma_b^2$ with $A_x$ the softmax of $\sigma_q^2 K(x, x)$ over columns.

    Parameters: `sigma_q` is the standard deviation of the queries' weights, over the root of the fan-in;
    `sigma_w` and `sigma_b` are those of the values, and the network's unless given here. Refused are signals
    without positions, or on a group, and scales that are not above 0 (biases: at least 0).

    >>> SelfAttention().after(Signal((8,), 3)).channels is None
    True
    """

    sigma_q: float = 1.0
    sigma_w: float | None = None
    sigma_b: float | None = None

    def __post_init__(self) -> None:
        positive("sigma_q", self.sigma_q)
        require_scales(self.sigma_w, self.sigma_b)

    @property
    def needs(self) -> NeededCovariances:
        return NeededCovariances(pairs=True, own=True, own_pairs=True)

    def after(self, signal: Signal) -> Signal:
        if not signal.space or signal.over is not None:
            raise InputError("SelfAttention takes signals on positions, not on a group or on none.")
        return signal.weighted()

    def observe(self, own: Covariance, tangent: bool, scales: Scales) -> Tensor:
        return torch.softmax(self.sigma_q**2 * own.matrices(own.k), -1)  # (n, p, p)

    def advance(
        self, state: Covariance, rows: Tensor, columns: Tensor, scales: Scales
    ) -> Covariance:
        n, m, p = state.n, state.m, state.signal.positions

        def attend(k: Tensor) -> Tensor:
            left = rows @ k.reshape(n, p, m * p)
            if state.own:
                return (left @ rows.mT).reshape(k.shape)
            both = torch.einsum("nqmp,mrp->nqmr", left.reshape(n, p, m, p), columns)
            return both.contiguous().view(k.shape)

        sums = state.map(attend, self.after(state.signal))
        return state.weighted(sums, scales.of(self.sigma_w, self.sigma_b), numbers=1)

    def finite(self, signal: Signal, inputs: int, outputs: int, draw: Draw) -> nn.Module:
        return _Attention(self, inputs, outputs, draw)


class _Attention(nn.Module):
    """The finite twin, with as many queries as the width."""

    def __init__(self, layer: SelfAttention, inputs: int, outputs: int, draw: Draw) -> None:
        super().__init__()
        self.query = nn.Parameter(draw.normal(draw.width, inputs))
        self.scale = layer.sigma_q / math.sqrt(inputs)
        own = draw.with_scales(layer.sigma_w, layer.sigma_b)
        self.value = Weights(
            own, inputs, outputs, (), lambda h, w: torch.einsum("ncp,oc->nop", h, w)
        )

    def forward(self, h: Tensor) -> Tensor:
        space, h = h.shape[2:], h.flatten(2)
        queries = self.scale * torch.einsum("ncp,qc->nqp", h, self.query)
        attention = torch.softmax(queries.mT @ queries / len(self.query), -1)
        return self.value(h @ attention.mT).unflatten(2, space)
