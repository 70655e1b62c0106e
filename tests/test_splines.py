"""Are the kernels of univariate ReLU networks exact in every region, in floats and at boundaries?"""

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
import sympy as sp
import torch
from mpmath import mp, mpf
from sympy import Rational

from analytic.expressions.arguments import InputError
from analytic.expressions.formula import Formula
from analytic.splines import INITIALISATIONS, Initialisation

signs, uniform, gaussian, onesided = INITIALISATIONS.values()
every = pytest.mark.parametrize("init", INITIALISATIONS.values(), ids=INITIALISATIONS)
cornered = pytest.mark.parametrize("init", [signs, uniform], ids=lambda init: init.name)
scaled = pytest.mark.parametrize("init", [signs, uniform, gaussian], ids=lambda init: init.name)
kernels = pytest.mark.parametrize("what", ["rf", "both", "ntk"])

Law = dict[str, Any]
HALF = Rational(1, 2)
LAWS = ({"A": sp.S(1), "B": sp.S(1)}, {"A": Rational(5, 3), "B": Rational(7, 4)})
# In units of the edge of the core: both sides of it, the edges themselves, and zero.
PLACES = [Rational(p) for p in ("-4", "-5/4", "-1", "-1/2", "0", "1/3", "1", "3/2", "7")]
SCALES = ((1.0, 1.0), (1e-6, 1.0), (1e6, 0.7), (2.0, 1e-6), (0.3, 1e6))
FLOATS: dict[str, list[Law]] = {
    "signs": [{"B": b} for b in (1.0, 1e-6, 3.3, 1e6)],
    "uniform": [{"A": a, "B": b} for a, b in SCALES],
    "gaussian": [{"sa": a, "sb": b} for a, b in SCALES],
    "onesided": [{}],
}


def edge_of(law: Law) -> Any:
    """Where the core of the knots ends, or what takes its place."""
    return law.get("B", law.get("sb", 1)) / law.get("A", law.get("sa", 1))


def digits(law: Law) -> Law:
    return {name: mpf(value) for name, value in law.items()}


def readout(what: str) -> Law:
    return {"ec2": 0.4} if what == "ntk" else {}


def one_in_the_core(l: Any, h: Any, U: Any) -> Any:
    """For slopes uniform on [-A, A]."""
    total = U**4 * (3 * h - l) - 8 * U**3 * h**2 + 6 * U**2 * h**2 * (h + l)
    return (total - 8 * U * h**3 * l + 3 * h**3 * l**2 - h**2 * l**3) / (6 * h**2)


def opposite_tails(l: Any, h: Any, U: Any) -> Any:
    """The same law."""
    return 8 * U * (-l * h - U**2) / 3 + U**4 * (h - l) ** 3 / (6 * l**2 * h**2)


# J with K = (E[a^2] lh + E[b^2])/2 + nu(0) J/2: both in the core |u| <= U; l in it, h above; both
# above; on opposite sides.
BENDS = {
    "signs": (
        lambda l, h, U: (h - l) ** 3 / 6,
        lambda l, h, U: (U - l) ** 2 * (3 * h - l - 2 * U) / 6,
        lambda l, h, U: 0,
        lambda l, h, U: -2 * U * (l * h + U**2 / 3),
    ),
    "uniform": (
        lambda l, h, U: (h - l) ** 3 / 6,
        one_in_the_core,
        lambda l, h, U: U**4 * (h - l) ** 3 / (6 * l**2 * h**2),
        opposite_tails,
    ),
}


def bends(init: Initialisation, l: Any, h: Any, U: Any) -> list[Any]:
    """J by every closed form that holds at l <= h: more than one where regions touch."""
    core, mixed, same, opposite = BENDS[init.name]
    cases = (
        (core, l >= -U and h <= U, (l, h)),
        (mixed, -U <= l <= U <= h, (l, h)),
        (mixed, l <= -U <= h <= U, (-h, -l)),
        (same, l >= U, (l, h)),
        (same, h <= -U, (-h, -l)),
        (opposite, l <= -U and h >= U, (l, h)),
    )
    return [form(*ends, U) for form, applies, ends in cases if applies]


def below(init: Initialisation, u: Any, U: Any) -> Any:
    """The share of knots below u."""
    if init is signs:
        return sp.S(min(max(HALF + u / (2 * U), 0), 1))
    if abs(u) <= U:
        return HALF + u / (4 * U)
    return 1 - U / (4 * u) if u > 0 else -U / (4 * u)


def exactly(formula: Formula, **values: Any) -> Any:
    return formula.expr.subs({symbol: values[symbol.name] for symbol in formula.args})


@cornered
@pytest.mark.parametrize("law", LAWS, ids=str)
def test_every_region_has_its_closed_form(init: Initialisation, law: Law) -> None:
    A, B = law.values()
    slopes, height = (sp.S(1), 1 / (2 * B)) if init is signs else (A**2 / 3, A**3 / (8 * B))
    U, kernel, both, met = B if init is signs else B / A, init.rf, init.both, 0
    for x, y in product([U * p for p in PLACES], repeat=2):
        forms = bends(init, min(x, y), max(x, y), U)
        computed = exactly(kernel, x=x, y=y, **law)
        assert {(slopes * x * y + B**2 / 3) / 2 + height * J / 2 for J in forms} == {computed}, (
            x,
            y,
        )
        assert (
            exactly(both, x=x, y=y, **law) == HALF - abs(below(init, x, U) - below(init, y, U)) / 2
        )
        met += len(forms)
    assert met > len(PLACES) ** 2  # regions touch


def test_opposite_signs_share_no_unit() -> None:
    for x, y in ((-1, 1), (3, -1), (-2, 5)):
        assert exactly(signs.rf, x=x, y=y, B=1) == 0 == signs.rf.numpy(x, y, 1)
        assert signs.rf.evaluate(x=x, y=y, B=1) == 0


def test_one_sided_units() -> None:
    kernel, both = onesided.rf, onesided.both
    for x, y in product([Rational(p, 4) for p in (-3, 0, 1, 3, 4, 9)], repeat=2):
        t = sp.S(min(max(min(x, y), 0), 1))
        assert exactly(kernel, x=x, y=y) == x * y * t - (x + y) * t**2 / 2 + t**3 / 3
        assert exactly(both, x=x, y=y) == t


def sweep(law: Law) -> tuple[np.ndarray, np.ndarray]:
    """All pairs of zero, both kinds of edge, 1e-9 and one rounding off them, and every scale."""
    edge, bias = float(edge_of(law)), float(law.get("B", law.get("sb", 1)))
    near = [edge * f for f in (1, 1 + 1e-9, 1 - 1e-9, 1 + 2**-52, 0.37, 1e-6, 1e6)]
    places = np.unique([s * p for p in (0.0, bias, 1e-6, 1e6, *near) for s in (1, -1)])
    x, y = np.meshgrid(places, places)
    return x.ravel(), y.ravel()


@every
@kernels
def test_floats_keep_thirteen_digits(init: Initialisation, what: str) -> None:
    formula, kernel, both = getattr(init, what), init.rf, init.both
    for law in FLOATS[init.name]:
        arguments, (x, y) = law | readout(what), sweep(law)
        with mp.workdps(90):  # of which the textbook face may lose 60
            pairs = zip(map(mpf, x.tolist()), map(mpf, y.tolist()), strict=True)
            exact = [formula.mpmath(p, q, **digits(arguments)) for p, q in pairs]
        scale = np.array([float(abs(value)) for value in exact])
        if what == "ntk":  # 1 + xy cancels near xy = -1, whoever adds it up in floats
            steps = both.numpy(x, y, **law)
            scale = kernel.numpy(x, y, **law) + 0.4 * (1 + abs(x * y)) * steps
        tensors = torch.tensor(x), torch.tensor(y)
        for computed in (
            formula.numpy(x, y, **arguments),
            formula.torch(*tensors, **arguments).numpy(),
        ):
            assert np.isfinite(computed).all()
            error = [float(abs(mpf(v) - e)) for v, e in zip(computed.tolist(), exact, strict=True)]
            assert (np.array(error) <= 1e-13 * scale).all(), law


@every
@kernels
def test_gradients_are_finite_everywhere(init: Initialisation, what: str) -> None:
    formula = getattr(init, what)
    for law in FLOATS[init.name]:
        x, y = (torch.tensor(v, requires_grad=True) for v in sweep(law))
        formula.torch(x, y, **law, **readout(what)).sum().backward()
        for gradient in (x.grad, y.grad):
            assert torch.isfinite(gradient).all(), law


@every
def test_gradient_of_a_smooth_kernel_at_its_corners(init: Initialisation) -> None:
    """K_RF has a derivative even at x = y and at the edges: what Min and Max do must not show."""
    law, kernel = FLOATS[init.name][0], init.rf
    places = torch.tensor([-2, -1, -0.4, 0.0, 0.4, 1, 2], dtype=torch.float64)
    x, y = (v.flatten().requires_grad_() for v in torch.meshgrid(places, places, indexing="ij"))
    kernel.torch(x, y, **law).sum().backward()
    with mp.workdps(60):
        h = mpf(10) ** -20  # K'' may jump there, so that the error is of order h
        for p, q, slope in zip(x.tolist(), y.tolist(), x.grad.tolist(), strict=True):
            right, left = (kernel.mpmath(p + s * h, mpf(q), **digits(law)) for s in (1, -1))
            assert slope == pytest.approx(float((right - left) / (2 * h)), rel=1e-13, abs=1e-15)


@every
@kernels
def test_gram_matrices_are_positive(init: Initialisation, what: str) -> None:
    formula = getattr(init, what)
    for law in FLOATS[init.name][:3]:
        places = edge_of(law) * np.concatenate([np.linspace(-3, 3, 498), [-1, 1]])
        gram = formula.numpy(places[:, None], places, **law, **readout(what))
        np.testing.assert_allclose(gram, gram.T, rtol=1e-14, atol=1e-15 * abs(gram).max())
        values = np.linalg.eigvalsh(gram)
        assert values[0] >= -1e-12 * values[-1], law


@every
def test_curvature_is_the_density_of_knots(init: Initialisation) -> None:
    """Half of them look either way; one-sided ones look to the right."""
    kernel, density = init.rf, init.density
    with mp.workdps(90):
        law = {symbol.name: mpf(k + 2) / 3 for k, symbol in enumerate(init.parameters)}
        edge, h = edge_of(law), mpf(10) ** -25
        for x, y in product([edge * p for p in (-1.7, -0.6, 0.3, 2.2)], (-1.4, 0.0, 0.5)):
            left, mid, right = (kernel.mpmath(x + n * h, mpf(y), **law) for n in (-1, 0, 1))
            share = max(y - x, 0) if init is onesided else abs(x - y) / 2
            wanted = density.mpmath(x, **law) * share
            assert abs((left - 2 * mid + right) / h**2 - wanted) <= mpf(10) ** -20, (x, y)


@every
def test_knots_carry_the_moments_of_the_law(init: Initialisation) -> None:
    with mp.workdps(30):
        law = {symbol.name: mpf(k + 2) / 3 for k, symbol in enumerate(init.parameters)}
        edge, count, weight = edge_of(law), init.knots.mpmath, init.density.mpmath
        bounded = {"signs": [-edge, edge], "onesided": [0, 1]}
        ends = bounded.get(init.name, [-mp.inf, -edge, edge, mp.inf])
        parts = [Formula("moment", init.parameters, m) for m in (init.slopes, init.biases)]
        slopes, biases = (part.mpmath(**law) for part in parts)

        def total(f: Callable[[Any], Any]) -> Any:
            return mp.quad(f, ends)

        assert abs(total(lambda u: count(u, **law)) - 1) < mpf(10) ** -20
        assert abs(total(lambda u: weight(u, **law)) - slopes) < mpf(10) ** -20
        assert abs(total(lambda u: u**2 * weight(u, **law)) - biases) < mpf(10) ** -20


@scaled
@pytest.mark.parametrize("bad", [0, -1, -1e-9, float("nan"), float("inf")])
def test_scales_that_are_not_positive_are_refused(init: Initialisation, bad: float) -> None:
    good = {symbol.name: 1.0 for symbol in init.parameters}
    for formula, name in product((init.rf, init.both, init.density, init.knots), good):
        points = {symbol.name: 0.5 for symbol in formula.args[: -len(good)]}
        for refusing in (formula.numpy, formula.evaluate):
            with pytest.raises(InputError, match=f"{name} = "):
                refusing(**points, **good | {name: bad})
