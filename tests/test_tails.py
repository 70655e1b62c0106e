"""Are scaled tails of the normal law, and small differences of them, right from 1e-12 to 1e12?"""

from typing import Any

import numpy as np
import pytest
import sympy as sp
import torch
from mpmath import mp, mpf

from analytic.expressions.backends import compile_mpmath
from analytic.expressions.special import scaled_tail, tail_bend, tail_corner, tail_step
from analytic.expressions.twofold import Twofold, functions

PLACES = np.geomspace(1e-12, 1e12, 13)
ORDERS = (0, 1, 2, 3)
x, y = sp.symbols("x y", nonnegative=True)
heads = pytest.mark.parametrize("head", [scaled_tail, tail_step, tail_corner])
orders = pytest.mark.parametrize("n", ORDERS[:3])


def by_quadrature(n: int, at: Any) -> Any:
    """The integral itself; far out it lives near u = 1/(2y)."""
    scale = 1 / (1 + 2 * at)
    return 2 / (mp.sqrt(mp.pi) * mp.factorial(n)) * mp.quad(
        lambda u: u**n * mp.exp(-(u**2) - 2 * at * u),
        [k * scale for k in (0, 1, 4, 12, 40, 120)],
    )  # fmt: skip


def exact(head: Any, n: int, *at: Any) -> Any:
    """The textbook meaning, with digits enough for any cancellation."""
    with mp.workdps(220):
        args = (x, y)[: len(at)]
        return compile_mpmath(args, head.exact(n, *args))(*map(mpf, at))


def pairs(*first: float) -> list[np.ndarray]:
    """All pairs of places, and more of the first."""
    return [part.ravel() for part in np.meshgrid([*first, *PLACES], PLACES)]


def points(head: Any) -> list[np.ndarray]:
    """Where a head is needed: a corner, at places of one size."""
    sizes = [part.ravel() for part in np.outer([1.0, 0.4], np.repeat(PLACES, 2)).reshape(2, -1)]
    return {scaled_tail: [PLACES], tail_step: pairs(0.0), tail_corner: sizes}[head]


@pytest.mark.parametrize("n", ORDERS)
def test_the_textbook_form_is_the_integral(n) -> None:
    with mp.workdps(30):
        for at in ("0.01", "0.7", "3", "20"):
            true = by_quadrature(n, mpf(at))
            assert abs(exact(scaled_tail, n, mpf(at)) / true - 1) < mpf(10) ** -24


@heads
@orders
def test_floats_are_right_to_a_few_ulps(head, n) -> None:
    at = points(head)
    true = [exact(head, n, *map(float, where)) for where in zip(*at, strict=True)]
    for values in (
        head.array(np, n, *at),
        head.array(torch, n, *map(torch.tensor, at)).numpy(),
    ):
        errors = [abs(mpf(float(v)) / t - 1) for v, t in zip(values, true, strict=True)]
        assert max(errors) < 4e-15


@heads
@orders
def test_twofold_numbers_have_thirty_digits(head, n) -> None:
    """Differences as averages of one variance need them."""
    scales = {scaled_tail: (1.0,), tail_step: (0.0, 1.0), tail_corner: (1.0, 0.4)}[head]
    at = [scale * PLACES for scale in scales]
    result = getattr(functions, head.__name__)(n, *(Twofold(np, part) for part in at))
    with mp.workdps(60):
        for k, where in enumerate(zip(*at, strict=True)):
            value = mpf(float(result.high[k])) + mpf(float(result.low[k]))
            assert abs(value / exact(head, n, *map(float, where)) - 1) < mpf(10) ** -27


@heads
@orders
def test_each_slope_is_the_one_that_differences_give(head, n) -> None:
    args = (x, y)[: 1 if head is scaled_tail else 2]
    for k, symbol in enumerate(args):
        slope = compile_mpmath(args, sp.diff(head(n, *args), symbol))
        with mp.workdps(60):
            for at in ((mpf("0.03"), mpf("0.2")), (mpf("1.7"), mpf("0.4")), (mpf(40), mpf(9))):
                where = at[: len(args)]
                order = tuple(int(j == k) for j in range(len(args)))
                true = mp.diff(lambda *v: exact(head, n, *v), where, order)
                assert abs(slope(*where) / true - 1) < mpf(10) ** -30


def bend_by_quadrature(x: Any, y: Any) -> Any:
    """The integral itself, of psi(p) = e^(-2p) - 1 + 2p by its power series where p is small."""

    def psi(p: Any) -> Any:
        if p > 0.1:
            return mp.expm1(-2 * p) + 2 * p
        return mp.fsum((-2 * p) ** k / mp.factorial(k) for k in range(2, 24))

    cuts = sorted({mpf(0), mpf(9), *(c for c in (mpf(1), 1 / x, 1 / y) if c < 9)})
    integral = mp.quad(lambda u: psi(x * u) * psi(y * u) * 2 * u * mp.exp(-(u**2)), cuts)
    return integral / mp.sqrt(mp.pi)


def test_a_bend_is_its_integral_and_right_to_a_few_ulps() -> None:
    """Against the integral where that is quick, against the textbook form everywhere."""
    with mp.workdps(25):
        for x, y in ((0.01, 0.3), (0.7, 0.7), (3.0, 0.2), (1e-6, 2.0)):
            true = bend_by_quadrature(mpf(x), mpf(y))
            assert abs(exact_bend(x, y) / true - 1) < mpf(10) ** -17
    at = pairs()
    true = [exact_bend(*map(float, where)) for where in zip(*at, strict=True)]
    for values in (
        tail_bend.array(np, *at),
        tail_bend.array(torch, *map(torch.tensor, at)).numpy(),
    ):
        errors = [abs(mpf(float(v)) / t - 1) for v, t in zip(values, true, strict=True)]
        assert max(errors) < 8e-15


def exact_bend(first: float, second: float) -> Any:
    with mp.workdps(220):
        return compile_mpmath((x, y), tail_bend.exact(x, y))(mpf(first), mpf(second))


def test_all_are_positive_and_tails_fall() -> None:
    for n in ORDERS:
        values = scaled_tail.array(np, n, PLACES)
        assert (values > 0).all()
        assert (np.diff(values) < 0).all()
    for head in (tail_step, tail_corner):
        assert (head.array(np, 1, *points(head)) > 0).all()


def test_nothing_but_a_number_is_an_order() -> None:
    for head in (scaled_tail, tail_step, tail_corner):
        with pytest.raises(sp.core.function.ArgumentIndexError):
            head(x, *(y,) * (1 if head is scaled_tail else 2)).fdiff(1)
