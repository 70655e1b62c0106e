"""Derivatives of activations in both tails, against mpmath."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from mpmath import mp
from torch import nn

from analytic import activations
from analytic.expressions.backends import compile_mpmath
from analytic.expressions.symbols import z as symbol
from numeric.models.activation_derivatives import by_expression, slopes_of, slopes_of_activation

NEAR = (-5.3, -1.2, -0.3, -1e-3, 1e-3, 0.4, 2.2, 6.1)
FAR = (-300.3, -37.3, 36.1, 299.9)


def sigma(z: Any) -> Any:
    return 1 / (1 + mp.exp(-z))


def elu(alpha: float, rate: float = 1.0, size: float = 1.0) -> Callable[[Any], Any]:
    a, r, s = map(mp.mpf, (alpha, rate, size))
    return lambda z: s * z if z > 0 else s * a * mp.expm1(r * z)


def bell_gate(z: Any) -> Any:
    return z * mp.erfc(-z / mp.sqrt(2)) / 2


def tanh_gate(z: Any) -> Any:
    return z * sigma(2 * mp.sqrt(2 / mp.pi) * (z + mp.mpf(0.044715) * z**3))


SATURATING = tuple(
    getattr(activations, name) for name in ("erf", "tanh", "sigmoid", "softplus", "silu", "gelu")
)

MODULES = {
    "Sigmoid": (nn.Sigmoid(), sigma, FAR),
    "Tanh": (nn.Tanh(), mp.tanh, FAR),
    "GELU": (nn.GELU(), bell_gate, (-35.1, -12.0, 9.5)),
    "GELU tanh": (nn.GELU("tanh"), tanh_gate, (-12.3, 11.5)),
    "SiLU": (nn.SiLU(), lambda z: z * sigma(z), FAR),
    "Softplus": (nn.Softplus(), lambda z: mp.log1p(mp.exp(z)), FAR),
    "Softplus 2.5": (nn.Softplus(2.5), lambda z: mp.log1p(mp.exp(2.5 * z)) / 2.5, (-90.3, 80.0)),
    "LogSigmoid": (nn.LogSigmoid(), lambda z: -mp.log1p(mp.exp(-z)), FAR),
    "ELU": (nn.ELU(0.7), elu(0.7), (-300.3,)),
    "CELU": (nn.CELU(0.5), elu(0.5, 2.0), (-300.3,)),
    "SELU": (nn.SELU(), elu(1.6732632423543772, 1.0, 1.0507009873554805), (-300.3,)),
    "Softsign": (nn.Softsign(), lambda z: z / (1 + abs(z)), FAR),
    "Tanhshrink": (nn.Tanhshrink(), lambda z: z - mp.tanh(z), FAR),
}


@pytest.mark.parametrize("name", MODULES)
def test_triples_are_the_derivatives_in_both_tails(name: str) -> None:
    module, phi, far = MODULES[name]
    at = torch.tensor((*NEAR, *far), dtype=torch.float64)
    triple = [part.tolist() for part in slopes_of(module)(at)]
    with mp.workdps(350):  # more than cancel in the tails
        for z, log_scale, *result in zip(at.tolist(), *triple, strict=True):
            for order, value in enumerate(result, 1):
                exact = mp.diff(phi, mp.mpf(z), order)
                got = value * mp.exp(log_scale)
                if (
                    abs(exact) < mp.mpf(10) ** -300
                ):  # a constant slope, or outside the range of float64
                    assert abs(got) < mp.mpf(10) ** -290
                else:
                    # Rounding an exponent t changes e^t by about |t| ulps.
                    ulps = 2 + abs(mp.log(abs(exact)))
                    assert abs(got / exact - 1) < 2e-15 * ulps


def test_the_textbook_derivatives_do_not_survive() -> None:
    z = torch.tensor([20.0], dtype=torch.float64)
    log_scale, slope, _ = slopes_of(nn.Tanh())(z)
    exact = 1 / math.cosh(20) ** 2
    assert abs((slope * log_scale.exp()).item() / exact - 1) < 1e-14
    assert abs((1 - torch.tanh(z) ** 2).item() / exact - 1) > 0.9


@pytest.mark.parametrize(
    "act",
    [*SATURATING, activations.monomial(3), activations.elu, activations.sine(1.5)],
    ids=lambda act: act.name,
)
def test_activations_of_the_suite_have_the_same_derivatives(act: activations.Activation) -> None:
    at = torch.tensor(NEAR, dtype=torch.float64)
    log_scale, *result = slopes_of_activation(act)(at)
    for order, part in enumerate(result, 1):
        body = compile_mpmath((symbol,), act.derivative(order))
        with mp.workdps(40):
            exact = torch.tensor([float(body(mp.mpf(z))) for z in NEAR], dtype=torch.float64)
        torch.testing.assert_close(part * log_scale.exp(), exact, rtol=1e-14, atol=1e-15)


def test_those_that_saturate_are_in_the_table() -> None:
    assert all(act.phi.expr in by_expression() for act in SATURATING)


def test_a_module_without_an_entry_has_none() -> None:
    assert slopes_of(nn.ReLU()) is None
    assert slopes_of(nn.Linear(2, 2)) is None
