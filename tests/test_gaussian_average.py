"""Does the table of Gaussian averages hold what it says, and nothing else?"""

import pytest
import sympy as sp
from mpmath import mp, mpf

from analytic.activations.gaussian_average import closed_form
from analytic.expressions.symbols import V, z

IN_THE_TABLE = {  # E[f(z)] for z ~ N(0, V), by hand
    "a wave in a bell": (
        sp.cos(z) * sp.exp(-(z**2)),
        lambda v: mp.exp(-v / (4 * v + 2)) / mp.sqrt(1 + 2 * v),
    ),
    "a power beside a wave": (z * sp.sin(z), lambda v: v * mp.exp(-v / 2)),
    "growth on both sides": (
        sp.cosh(z) * sp.sinh(z) ** 2,
        lambda v: (mp.exp(9 * v / 2) - mp.exp(v / 2)) / 4,
    ),
    "a wave with a phase": (sp.sin(z + 1), lambda v: mp.sin(1) * mp.exp(-v / 2)),
    "a kink that is none": (
        sp.Piecewise((z * sp.sin(2 * z), z > 0), (2 * z * sp.sin(z) * sp.cos(z), True)),
        lambda v: 2 * v * mp.exp(-2 * v),
    ),
    "a broken power": (
        sp.Piecewise((z**3 * sp.sqrt(z), z > 0), (0, True)),
        lambda v: (2 * v) ** 1.75 * mp.gamma(2.25) / (2 * mp.sqrt(mp.pi)),
    ),
    "a tail": (
        sp.Piecewise((sp.exp(-z), z > 1), (0, True)),
        lambda v: mp.exp(v / 2) * mp.erfc((1 + v) / mp.sqrt(2 * v)) / 2,
    ),
}
NOT_IN_THE_TABLE = (
    sp.tanh(z),
    sp.cos(z**2),
    sp.exp(z**3),
    sp.exp(z**2 / 9),
    1 / z,
    sp.log(1 + z**2),
)


@pytest.mark.parametrize(("f", "average"), IN_THE_TABLE.values(), ids=IN_THE_TABLE)
def test_the_table_of_averages(f, average) -> None:
    kinks = sorted(b for p in f.atoms(sp.Piecewise) for _, c in p.args for b in c.as_set().boundary)
    form = closed_form(f, kinks)
    for v in (sp.Rational(1, 3), sp.Integer(4)):
        value = average(mpf(v.p) / v.q)  # a few operations of 53 bits
        assert abs(form.subs(V, v).evalf(20) - value) <= 1e-14 * abs(value)


@pytest.mark.parametrize("f", NOT_IN_THE_TABLE, ids=str)
def test_what_is_not_in_the_table_is_not_searched_for(f) -> None:
    assert closed_form(f, ()) is None


def test_waves_between_kinks_are_not_in_the_table() -> None:
    assert closed_form(sp.Piecewise((sp.sin(z), z > 0), (z, True)), (sp.S.Zero,)) is None
