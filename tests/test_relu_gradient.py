"""Gradients by prefix sums against torch's own differentiation, to the last bits and at every kink."""

import math

import pytest
import torch
from torch import Tensor

from numeric.relu_dynamics.gradient import Gradient, Samples, gradient

GENERATOR = torch.Generator().manual_seed(7)


def by_autograd(x: Tensor, y: Tensor, parts: tuple[Tensor, ...], alpha: float) -> Gradient:
    a, b, c = (part.clone().requires_grad_() for part in parts)
    residuals = torch.relu(x[:, None] * a - b) @ c / alpha - y
    derivatives = torch.autograd.grad((residuals**2).sum() / 2, (a, b, c))
    return Gradient(*derivatives, residuals.detach())


def drawn(*sizes: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return 2 * torch.rand(*sizes, generator=GENERATOR, dtype=dtype) - 1


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("s", [1, 2, 3, 20, 300])
@pytest.mark.parametrize("m", [1, 400])
def test_gradient_is_that_of_torch(m: int, s: int, dtype: torch.dtype) -> None:
    x, y, (a, b, c) = drawn(s, dtype=dtype), drawn(s, dtype=dtype), drawn(3, m, dtype=dtype)
    samples, order = Samples.of(x)
    alpha = math.sqrt(m)
    by_prefix_sums = gradient(samples, y[order], a, b, c, alpha)
    exact = by_autograd(samples.x, y[order], (a, b, c), alpha)
    size = (c * torch.hypot(a, b)).abs().sum() / alpha + 1
    for part in ("a", "b", "c", "residuals"):
        off = (getattr(by_prefix_sums, part) - getattr(exact, part)).abs().max()
        assert off < 8 * torch.finfo(dtype).eps * size * s


def spread(kind: str) -> Tensor:
    """Samples for which patterns are found by the grid, or by bisection."""
    if kind == "even":
        return torch.linspace(-1, 1, 20, dtype=torch.float64)
    close = torch.tensor(
        [1.0, math.nextafter(1.0, 2), 1 + 4e-16, 0.1, -0.3, 1e300], dtype=torch.float64
    )
    return close


@pytest.mark.parametrize("kind", ["even", "close"])
def test_patterns_are_those_of_the_rounded_products_at_every_kink(kind: str) -> None:
    """Knots at samples and one bit beside, neurons without slope or without anything, signs of zero."""
    samples, _ = Samples.of(spread(kind))
    assert (samples._grid is None) == (kind == "close")
    x = samples.x
    a = drawn(40)
    a = torch.cat([a, a.abs() * 1e-300])[:, None].expand(-1, len(x)).flatten()
    b = (a.reshape(-1, len(x)) * x).flatten()
    up, down = (torch.nextafter(b, torch.full_like(b, s * math.inf)) for s in (1, -1))
    zero = torch.tensor([0.0, 0.0, 0.0, -0.0, -0.0, -0.0, 5e-324, -5e-324], dtype=torch.float64)
    level = torch.tensor([1.0, -1.0, 0.0, 1.0, -1.0, -0.0, 1.0, 1.0], dtype=torch.float64)
    a, b = torch.cat([a, a, a, zero]), torch.cat([b, up, down, level])
    on = x * a[:, None] > b[:, None]  # (m, s)
    patterns = samples.patterns(a, b)
    s, number = len(x), torch.arange(len(x))
    left = patterns[:, None] > s
    active = torch.where(left, number >= patterns[:, None] - s, number < patterns[:, None])
    assert (active == on).all()
    c = drawn(len(a))
    sums = samples.sums(c[None], patterns)[0]
    assert (sums - on.to(c).T @ c).abs().max() < 1e-13


def test_forces_are_sums_over_patterns() -> None:
    samples, _ = Samples.of(spread("even")[:7])
    weights = drawn(2, 7)
    table = samples.forces(weights)
    for q in range(15):
        active = torch.arange(7) < q if q <= 7 else torch.arange(7) >= q - 7
        assert (table[:, q] - (weights * active).sum(1)).abs().max() < 1e-14


def test_descent_on_a_gradient_that_was_tampered_with_would_be_seen() -> None:
    """One percent of one part is far outside the tolerance above."""
    x, y, parts = drawn(20), drawn(20), tuple(drawn(3, 400))
    samples, order = Samples.of(x)
    by_prefix_sums = gradient(samples, y[order], *parts, 20.0)
    exact = by_autograd(samples.x, y[order], parts, 20.0)
    assert (1.01 * by_prefix_sums.a - exact.a).abs().max() > 1e-6
