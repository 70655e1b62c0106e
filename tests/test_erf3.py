"""Does the three-unit erf example hold to a few ulps, with its symmetries and its signs?"""

from itertools import product
from typing import Any

import numpy as np
import pytest
import sympy as sp
import torch
from mpmath import mp, mpf

from analytic.expressions.arguments import InputError
from analytic.expressions.formula import Formula
from analytic.finite.bumps import bumps, determinant, log_determinant
from analytic.finite.erf3 import WEIGHTS, b, magnification, ricci, x1, x2

EPS, TINY, LARGEST = 2.0**-52, 5e-324, np.finfo(float).max
BOTH = pytest.mark.parametrize("formula", [magnification, ricci], ids=lambda f: f.name)
INPUTS = np.array([[0.3, -0.8, 0.0], [1.1, 0.4, 0.7], [-2.0, 0.5, -1.3], [0.2, 0.1, 3.0]])


def truth(formula: Formula, point: Any) -> Any:
    """The textbook face, with digits to spare for squares of 1e8."""
    with mp.workdps(80):
        return formula.mpmath(*(mpf(float(v)) for v in point))


def is_right(value: float, true: Any, ulps: float) -> bool:
    if abs(true) > LARGEST:
        return value == np.copysign(np.inf, float(mp.sign(true)))
    # What is lost below the normal floats is 10 of the smallest, the constant 9 pi / 4 of R.
    return abs(mpf(float(value)) - true) <= ulps * EPS * abs(true) + 10 * TINY


def points(scale: float) -> np.ndarray:
    """Random ones; without bias; as near |x| = 2|b| as floats are; on an axis; where a unit vanishes."""
    rows = np.random.default_rng(5).normal(size=(50, 3)) * scale
    rows[10:20, 2] = 0.0
    rows[20:30, 2] = np.hypot(rows[20:30, 0], rows[20:30, 1]) / 2
    rows[30:, 1] = 0.0
    rows[40:, 0] = -rows[40:, 2]
    return rows


def test_derived_forms_are_those_of_the_paper() -> None:
    """(B.68), and (B.70) with 9 pi / 4 in front."""
    sides = [sp.exp((x1 + sign * sp.sqrt(3) * x2 - 2 * b) ** 2 / 4) for sign in (1, -1)]
    S, rise = sp.exp((x1 + b) ** 2) + sum(sides), sp.exp(3 * (x1**2 + x2**2 + 2 * b**2) / 2)
    printed = -9 * sp.pi / 4 * (x1**2 + x2**2 - 4 * b**2) * rise / S**2
    assert sp.simplify(magnification.expr**2 * rise * 3 * sp.pi**2 / S) == 1
    assert sp.simplify(ricci.expr / printed) == 1


@BOTH
@pytest.mark.parametrize("scale", [1e-160, 1e-9, 1e-2, 1.0, 5.0, 30.0, 1e2, 1e4, 1e8])
def test_floats_are_right_to_a_few_ulps(formula: Formula, scale: float) -> None:
    at = points(scale)
    faces = formula.numpy(*at.T), formula.torch(*map(torch.tensor, at.T)).numpy()
    wrong = [
        (point, value, mp.nstr(true))
        for point, *values in zip(at, *faces, strict=True)
        for true in [truth(formula, point)]
        for value in values
        if not is_right(value, true, ulps=8)  # two exponentials, three squares, five products
    ]
    assert wrong == []


@BOTH
@pytest.mark.parametrize("scale", [1e120, 1e200, 1e300])
def test_beyond_the_squares_of_floats_nothing_is_nan(formula: Formula, scale: float) -> None:
    at = points(scale)
    assert not np.isnan(formula.numpy(*at.T)).any()
    assert not formula.torch(*map(torch.tensor, at.T)).isnan().any()


def test_far_out_values_are_honest() -> None:
    assert ricci.numpy(0.0, 0.0, 1e3) == np.inf  # 3 pi b^2 e^(b^2) / 3
    assert ricci.numpy(6e3, 8e3, 5e3) == 0.0  # |x| = 2|b|
    assert ricci.numpy(-1e120, 0.0, 1e120) == pytest.approx(27 * np.pi / 16 * 1e240, rel=1e-15)
    assert magnification.numpy(2e100, 0.0, 1e100) == pytest.approx(
        1 / (np.pi * np.sqrt(3)), rel=1e-15
    )  # at a centre only one bump is left
    assert magnification.numpy(1e3, 0.0, 0.0) == 0.0


@BOTH
@pytest.mark.parametrize("point", INPUTS.tolist(), ids=str)
def test_symmetries(formula: Formula, point: list[float]) -> None:
    x, y, bias = point
    rotated = -0.5 * x - np.sqrt(3) / 2 * y, np.sqrt(3) / 2 * x - 0.5 * y
    near = {"rel": 1e-13}  # the rotated point is rounded, and e^(z^2) multiplies that by 2 z^2
    value = formula.numpy(x, y, bias)
    assert formula.numpy(*rotated, bias) == pytest.approx(value, **near)
    assert formula.numpy(x, -y, bias) == value
    assert formula.numpy(-x, -y, -bias) == value
    sixth = formula.numpy(0.5 * x - np.sqrt(3) / 2 * y, np.sqrt(3) / 2 * x + 0.5 * y, bias)
    assert (sixth == pytest.approx(value, **near)) == (bias == 0)


def test_curvature_changes_sign_on_the_circle_through_the_centres() -> None:
    angle = np.linspace(0, 2 * np.pi, 13)
    for bias, radius in product((1.0, -0.4, 5.0), (0.0, 0.5, 1.9, 2.1, 4.0)):
        r = radius * abs(bias)
        value = ricci.numpy(r * np.cos(angle), r * np.sin(angle), bias)
        assert (np.sign(value) == np.sign(2 - radius)).all()
    for point in ((6, 8, 5), (-6, 8, -5), (10, 0, 5), (0.0, 0.0, 0.0)):
        assert ricci.numpy(*point) == 0.0
        assert ricci.torch(*map(torch.tensor, map(float, point))) == 0.0


def test_bumps_of_the_network_are_its_volume() -> None:
    for x, y, bias in INPUTS:
        pairs = bumps(WEIGHTS, 3 * [bias])
        assert {sp.simplify(bump.centre.norm()) for bump in pairs} == {2 * abs(sp.Rational(bias))}
        log = log_determinant(pairs, [x, y])
        assert log / 2 == pytest.approx(np.log(magnification.numpy(x, y, bias)), rel=1e-14)


@BOTH
def test_gradients_are_finite_and_right(formula: Formula) -> None:
    hard = [[0, 0, 0], [2, 0, 1], [40, 1, 20], [-6, 0, 6], [3, -4, 2.5], [1e3, 5, 2], [1e200, 0, 0]]
    at = torch.tensor([*INPUTS.tolist(), *hard], dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(formula.torch(*at.T).sum(), at)
    assert gradient.isfinite().all()
    for point, row in zip(at[:-2].tolist(), gradient.tolist()):
        for name, computed in zip(("x1", "x2", "b"), row, strict=True):
            true = truth(formula.diff(name), point)
            size = abs(truth(formula, point)) * (1 + sum(v * v for v in point))
            assert abs(computed - true) <= 1e-14 * (abs(true) + size) + TINY


def test_faces_broadcast_and_keep_their_kind() -> None:
    grid = np.linspace(-2, 2, 5)
    value = ricci.numpy(grid[:, None], grid, 0.5)
    assert value.shape == (5, 5)
    assert value[1, 3] == ricci.numpy(grid[1], grid[3], 0.5)
    assert isinstance(magnification.numpy(1, 2, 0), float)
    fixed = ricci.at(b="1/2")
    np.testing.assert_array_equal(fixed.numpy(grid[:, None], grid), value)
    single = torch.tensor([0.3, -40.0, 7.0])
    for formula in (magnification, ricci):
        computed = formula.torch(single, single / 3, 0.5 * single)
        assert computed.dtype == torch.float32
        double = formula.torch(single.double(), single.double() / 3, 0.5 * single.double())
        exact = formula.torch(single.double(), (single / 3).double(), 0.5 * single.double())
        torch.testing.assert_close(computed.double(), exact, rtol=1e-6, atol=1e-44)
        assert not torch.equal(double, exact)  # a rounded input is another input


def test_evaluation_follows_the_bumps_and_the_program_the_textbook() -> None:
    at = {"x1": "0.3", "x2": "-1/7", "b": "1.1"}
    exact = [sp.Rational(value) for value in at.values()]
    true = sp.sqrt(determinant(bumps(WEIGHTS, 3 * exact[2:]), exact[:2])).evalf(50)
    with mp.workdps(50):
        assert abs(magnification.evaluate(40, **at) - mp.mpmathify(true)) < mpf(10) ** -40
        point = [mp.mpmathify(value.evalf(50)) for value in exact]
        for formula in (magnification, ricci):
            program = Formula("program", (x1, x2, b), formula.stable).mpmath(*point)
            assert abs(program - formula.evaluate(40, **at)) < mpf(10) ** -38


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"x1": float("nan"), "x2": 0, "b": 1}, "x1 = nan was given"),
        ({"x1": 0, "x2": np.inf, "b": 1}, "x2 = inf was given"),
        ({"x1": 0, "x2": 1}, "also needs b"),
        ({"x1": 0, "x2": 1, "b": "far"}, "b = 'far' is no number"),
        ({"x1": 0, "x2": 1, "b": 0, "sigma": 1}, "no argument sigma"),
    ],
)
@BOTH
def test_bad_input_is_refused_with_a_reason(formula: Formula, arguments: dict, words: str) -> None:
    with pytest.raises(InputError, match=words):
        formula.numpy(**arguments)
