"""Is the text of a formula's program the program, in Python and in C?"""

import ctypes
import inspect
import math
import shutil
import subprocess
from collections.abc import Callable
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import sympy as sp
import torch
from mpmath import mp, mpf

from analytic import Formula, InputError, catalogue
from analytic.activations import monomial, tanh
from analytic.expressions import backends

ACTIVATIONS = ("erf", "monomial", "relu_power", "sine", "cosine", "exponential", "gaussian", "gelu")
SHALLOW = ("kernel", "slope", "omega", "tangential", "radial", "magnification", "ricci")
IN_C = [
    *(f"nngp.{act}.{what}" for act in (*ACTIVATIONS, "relu", "snake") for what in SHALLOW),
    *(f"ntk.{act}.{what}" for act in ACTIVATIONS for what in ("kernel", "origin")),
    *(f"nngp.elu.{what}" for what in SHALLOW[2:]),
    *(f"erf3.{what}" for what in ("magnification", "ricci")),
    *(f"perturbation.{what}" for what in ("chi", "fluctuation", "magnification")),
    *(f"relu.{what}" for what in ("c_squared", "radial_rate", "angular_rate")),
    *(f"spline.{law}.rf" for law in ("signs", "uniform", "gaussian", "onesided")),
]
VALUES = {  # two of each argument; kxy is a part of the root of kxx kyy
    **{"d": (2, 5), "sigma": (0.8, 1.7), "zeta": (0.0, 0.6), "xi": (0.5, 1.2), "r": (0.03, 2.5)},
    **{"kxx": (0.4, 3.0), "kyy": (1.1, 0.2), "kxy": (-0.7, 0.9), "xy": (-0.3, 0.8), "w": (0.75,)},
    **{"a": (0.75,), "x1": (0.3, -2.0), "x2": (0.7,), "b": (0.4, 1.5), "rho": (0.3, -1.0)},
    **{"ratio": (1.5,), "n": (100,), "x": (-0.6, 0.3), "y": (0.2, 0.9), "A": (1.2,), "B": (0.9,)},
    **{
        "sa": (0.7,),
        "sb": (1.3,),
        "ec2": (0.5,),
        "delta": (-0.6, 0.8),
        "m": (10,),
        "alpha": (3.0,),
    },
}


def formula_of(name: str) -> Formula:
    """From the catalogue, with q = 3 where it is open."""
    formula = catalogue[name]
    return formula.at(q=3) if "q" in dir(formula.symbols) else formula


def points(formula: Formula) -> list[tuple[float, ...]]:
    names = [symbol.name for symbol in formula.args]
    grid = [dict(zip(names, at, strict=True)) for at in product(*(VALUES[n] for n in names))]
    for at in grid:
        if "kxy" in at:
            at["kxy"] *= math.sqrt(at["kxx"] * at["kyy"])
    return [tuple(map(float, at.values())) for at in grid]


def compiled(formula: Formula, folder: Path) -> Callable[..., float]:
    """The function of the formula's C source, strictly compiled."""
    (folder / "form.c").write_text(formula.source("C"))
    command = "gcc -std=c99 -Wall -Wno-unknown-pragmas -Werror -shared -fPIC form.c -o form.so -lm"
    done = subprocess.run(command.split(), cwd=folder, capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr
    function = ctypes.CDLL(str(folder / "form.so"))[backends.identifier(formula.name)]
    function.restype, function.argtypes = ctypes.c_double, [ctypes.c_double] * len(formula.args)
    return function


@pytest.mark.skipif(shutil.which("gcc") is None, reason="there is no gcc")
@pytest.mark.parametrize("name", IN_C)
def test_c_computes_what_numpy_does(tmp_path: Path, name: str) -> None:
    """The operations are the same ones, so only functions such as exp and pow differ, by an ulp or two
    each; nothing in these forms cancels, but exponents of up to 20 multiply the difference by as much."""
    formula = formula_of(name)
    function = compiled(formula, tmp_path)
    for at in points(formula):
        assert function(*at) == pytest.approx(formula.numpy(*at), rel=32 * 2.0**-52, abs=1e-300), at


def test_c_is_one_function_with_the_arguments_in_order() -> None:
    text = catalogue["nngp.erf.ricci"].source("C")
    assert "double nngp_erf_ricci(double d, double sigma, double zeta, double r)\n{" in text
    assert text.count("return") == text.count("double nngp") == 1
    assert "Zavatone-Veth" in text


def test_names_that_c_reserves_get_an_underscore() -> None:
    double, fabs = sp.symbols("double fabs", real=True)
    text = Formula("2 ways", (double, fabs), sp.Abs(double) * fabs).source("C")
    assert "double f_2_ways(double double_, double fabs_)" in text


q, x = sp.Symbol("q", positive=True), sp.Symbol("x", real=True)
CANNOT = {
    "a quadrature": (lambda: tanh.F, r"tanh\.F contains Moment, a quadrature, .* call `\.numpy`"),
    "a pair's quadrature": (lambda: tanh.kernel, "contains PairMoment, a quadrature"),
    "an integral over an angle": (lambda: catalogue["nngp.elu.kernel"], "quadrature over an angle"),
    "a deep recursion": (lambda: catalogue["deep.erf.nngp.ricci"], "DeepRicci, a recursion over"),
    "an open degree": (lambda: monomial().kernel, r"each value of q.*\.at\(q=2\)"),
    "a hypergeometric function": (
        lambda: Formula("series", (x,), sp.hyper((q, q), (q,), x).subs(q, sp.Rational(1, 3))),
        r"series cannot be written in C: hyper has no form",
    ),
}


@pytest.mark.parametrize("what", CANNOT)
def test_what_c_cannot_say_is_refused(what: str) -> None:
    make, sentence = CANNOT[what]
    with pytest.raises(InputError, match=sentence):
        make().source("C")


@pytest.mark.parametrize("language", ["c", "fortran", "", None, 3, ["C"]])
def test_other_languages_are_refused(language) -> None:
    with pytest.raises(InputError, match="give 'numpy', 'torch', 'mpmath' or 'C'"):
        catalogue["nngp.erf.omega"].source(language)


IN_PYTHON = (
    "nngp.erf.ricci", "nngp.gelu.kernel", "nngp.monomial.kernel", "nngp.elu.slope", "spline.gaussian.rf",
    "deep.erf.nngp.ricci", "ntk.sine.kernel",
)  # fmt: skip


@pytest.mark.parametrize("language", ["numpy", "torch", "mpmath"])
@pytest.mark.parametrize("name", IN_PYTHON)
def test_the_text_in_python_is_the_program(name: str, language: str) -> None:
    formula = catalogue[name]
    form = formula.expr if language == "mpmath" else formula.floating
    compiled = inspect.unwrap(backends.COMPILERS[language](formula.args, form))
    namespace = dict(compiled.__globals__)  # the functions that the backend supplies
    exec(formula.source(language), namespace)
    written = namespace[backends.identifier(name)]
    names = [symbol.name for symbol in formula.args]
    at = [{"depth": 2, "q": 3, "kxy": 0.3}.get(n) or VALUES[n][0] for n in names]
    plain = [n in ("depth", "q") for n in names]
    if language == "mpmath":
        with mp.workdps(25):
            values = list(map(mpf, at))
            assert written(*values) == formula.mpmath(*values)
        return
    to_array, float64 = (
        (np.asarray, float) if language == "numpy" else (torch.tensor, torch.float64)
    )
    values = [
        v if is_plain else to_array(v, dtype=float64) for v, is_plain in zip(at, plain, strict=True)
    ]
    assert float(written(*values)) == float(getattr(formula, language)(*values))
