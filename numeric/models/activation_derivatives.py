r"""Derivatives of torch's activations, written so that they stay accurate under saturation.

Each function takes z to (log scale, slope, bend), where $\phi' = e^{\text{log scale}}\,$slope and
$\phi'' = e^{\text{log scale}}\,$bend. In a tail the factor that underflows is kept as its logarithm, and the
other factor keeps all digits: for tanh it is $4/(1+e^{-2|z|})^2$, while $1 - \tanh^2$ cancels completely.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import sympy as sp
import torch
from torch import Tensor, nn

from analytic import activations
from analytic.activations.activation import Activation
from analytic.expressions.formula import Formula
from analytic.expressions.symbols import z as symbol

__all__ = [
    "Slopes", "by_expression", "elu", "erf", "gelu", "gelu_tanh", "log_sigmoid", "sigmoid", "silu",
    "slopes_of", "slopes_of_activation", "softplus", "softsign", "tanh", "tanhshrink",
]  # fmt: skip

Triple = tuple[Tensor, Tensor, Tensor]  # log scale, slope, bend
Slopes = Callable[[Tensor], Triple]


def sigmoid(z: Tensor) -> Triple:
    r"""$\sigma' = \sigma(z)\sigma(-z)$ and $\sigma'' = -\sigma'\tanh(z/2)$."""
    scale = z.abs().neg_()
    fall = torch.expm1(scale)
    gate = (2 + fall).reciprocal_()  # sigma(|z|)
    bend = fall.mul_(gate).copysign_(z).neg_()  # -tanh(z/2)
    slope = gate.square_()
    return scale, slope, bend.mul_(slope)


def tanh(z: Tensor) -> Triple:
    """tanh z = 2 sigma(2 z) - 1."""
    scale, slope, bend = sigmoid(2 * z)
    return scale, 4 * slope, 8 * bend


def gelu(z: Tensor) -> Triple:
    r"""$\Phi(z) + z\Phi'(z)$ and $(2 - z^2)\Phi'(z)$; for z < 0 divided by $e^{-z^2/2}$."""
    root = math.sqrt(2 * math.pi)
    left = torch.clamp(z, max=0)
    scale, mills = -(left**2) / 2, torch.special.erfcx(-left / math.sqrt(2)) / 2
    bell = torch.exp(-z * z / 2 - scale) / root
    below = torch.where(z < 0, mills, torch.erfc(-z / math.sqrt(2)) / 2)
    return scale, below + z * bell, (2 - z * z) * bell


def gelu_tanh(z: Tensor) -> Triple:
    r"""$z\,\sigma(2u)$ with $u = \sqrt{2/\pi}\,(z + 0.044715\,z^3)$, from the logistic function's triple."""
    k, c = 2 * math.sqrt(2 / math.pi), 0.044715
    rate, turn = k * (1 + 3 * c * z * z), 6 * k * c * z
    return _gated(z, k * (z + c * z**3), rate, turn)


def silu(z: Tensor) -> Triple:
    r"""$z\,\sigma(z)$."""
    return _gated(z, z, torch.ones_like(z), torch.zeros_like(z))


def _gated(z: Tensor, u: Tensor, rate: Tensor, turn: Tensor) -> Triple:
    """z sigma(u) where u' = rate and u'' = turn; for u < 0 divided by e^u."""
    tail = torch.exp(-u.abs())
    scale = torch.clamp(u, max=0)
    gate = 1 / (1 + tail)  # sigma(u) over the scale
    other = torch.where(u < 0, gate, gate * tail)  # sigma(-u)
    first = gate * other * rate
    second = gate * other * (turn - torch.tanh(u / 2) * rate**2)
    return scale, gate + z * first, 2 * first + z * second


def softplus(z: Tensor) -> Triple:
    r"""$\sigma(z)$ and $\sigma(z)\sigma(-z)$."""
    tail = torch.exp(-z.abs())
    gate = 1 / (1 + tail)
    return torch.clamp(z, max=0), gate, gate * torch.where(z < 0, gate, gate * tail)


def log_sigmoid(z: Tensor) -> Triple:
    """-softplus(-z)."""
    scale, slope, bend = softplus(-z)
    return scale, slope, -bend


def elu(z: Tensor, alpha: float = 1.0, rate: float = 1.0, size: float = 1.0) -> Triple:
    """size max(z, 0) + size alpha expm1(rate min(z, 0)), between its kinks."""
    scale, left = rate * torch.clamp(z, max=0), z <= 0
    one = torch.full_like(z, size)
    return (
        scale,
        torch.where(left, one * alpha * rate, one),
        torch.where(left, one * alpha * rate**2, 0),
    )


def softsign(z: Tensor) -> Triple:
    """(1 + |z|)^-2, between kinks."""
    slope = (1 + z.abs()) ** -2
    return torch.zeros_like(z), slope, -2 * z.sign() * slope / (1 + z.abs())


def tanhshrink(z: Tensor) -> Triple:
    """z - tanh z."""
    t = torch.tanh(z)
    scale, slope, _ = tanh(z)
    return torch.zeros_like(z), t * t, 2 * t * slope * scale.exp()


def erf(z: Tensor) -> Triple:
    """erf(z/sqrt 2)."""
    slope = torch.full_like(z, math.sqrt(2 / math.pi))
    return -z * z / 2, slope, -z * slope


def slopes_of(module: nn.Module) -> Slopes | None:
    """The derivatives of a torch module, or None if it is not in the table."""
    match module:
        case nn.GELU(approximate="tanh"):
            return gelu_tanh
        case nn.Softplus(beta=beta):
            return _stretched(softplus, beta)
        case nn.ELU(alpha=alpha):
            return lambda z: elu(z, alpha)
        case nn.CELU(alpha=alpha):
            return lambda z: elu(z, alpha, 1 / alpha)
        case nn.SELU():
            return lambda z: elu(z, *SELU)
    return TABLE.get(type(module))


def slopes_of_activation(activation: Activation) -> Slopes:
    """The derivatives of an `Activation`, from its formula if it is not in the table."""
    if (known := by_expression().get(activation.phi.expr)) is not None:
        return known
    first, second = (
        Formula("slope", (symbol,), activation.derivative(order)).torch for order in (1, 2)
    )
    return lambda z: (torch.zeros_like(z), first(z), second(z))


def _stretched(triple: Slopes, beta: float) -> Slopes:
    """phi(beta z)/beta."""

    def at(z: Tensor) -> Triple:
        scale, slope, bend = triple(beta * z)
        return scale, slope, beta * bend

    return at


SELU = (1.6732632423543772848170429916717, 1.0, 1.0507009873554804934193349852946)

TABLE: dict[type[nn.Module], Slopes] = {
    nn.Sigmoid: sigmoid,
    nn.Tanh: tanh,
    nn.GELU: gelu,
    nn.SiLU: silu,
    nn.LogSigmoid: log_sigmoid,
    nn.Softsign: softsign,
    nn.Tanhshrink: tanhshrink,
}


@cache
def by_expression() -> dict[sp.Expr, Slopes]:
    """The same for activations of `analytic`, whose moments take SymPy half a second: when first needed."""
    known = {
        "sigmoid": sigmoid, "tanh": tanh, "gelu": gelu, "silu": silu, "softplus": softplus, "erf": erf,
    }  # fmt: skip
    return {getattr(activations, name).phi.expr: triple for name, triple in known.items()}
