"""Is the catalogue a lazy, complete mapping whose formulas run on tensors of any float type?"""

from collections.abc import Mapping
from functools import partial

import pytest
import torch

from analytic import catalogue, nngp
from analytic.activations import ACTIVATIONS, erf
from analytic.catalogue import Catalogue
from analytic.domain import InputError
from analytic.formula import Formula

NAMES = (
    "erf",
    "monomial",
    "relu_power",
    "sine",
    "cosine",
    "exponential",
    "gaussian",
    "gelu",
    "elu",
    "snake",
)
ARGUMENTS = {  # the design's table, and the two eigenvalues of the metric
    "kernel": ("kxx", "kxy", "kyy"),
    "slope": ("kxx", "kxy", "kyy"),
    "omega": ("sigma", "zeta", "r"),
    "tangential": ("sigma", "zeta", "r"),
    "radial": ("sigma", "zeta", "r"),
    "magnification": ("d", "sigma", "zeta", "r"),
    "ricci": ("d", "sigma", "zeta", "r"),
}
EXTRA = {
    "monomial": "q",
    "relu_power": "q",
    "sine": "w",
    "cosine": "w",
    "exponential": "w",
    "snake": "a",
}
VALUES = {"d": 3, "sigma": 1.25, "zeta": 0.5, "kyy": 0.75, "q": 3, "w": 0.75, "a": 0.75}
formulas = pytest.mark.parametrize(
    "name", [f"nngp.{act}.{what}" for act in NAMES for what in ARGUMENTS]
)


def example(formula, dtype=torch.float64) -> dict:
    """A point with two tensors, kxx and kxy or r, that ask for gradients."""
    values = {symbol.name: VALUES.get(symbol.name) for symbol in formula.args}
    free = {"kxx": [0.5, 2.0, 8.0], "kxy": [-0.5, 0.25, 1.0], "r": [0.5, 2.0, 8.0]}
    tensors = {k: torch.tensor(v, dtype=dtype, requires_grad=True) for k, v in free.items()}
    return values | {k: tensors[k] for k in values if k in tensors}


def test_nothing_is_derived_before_it_is_asked_for() -> None:
    asked = []

    def derive(name) -> Formula:
        asked.append(name)
        return nngp.omega(erf)

    lazy = Catalogue({name: partial(derive, name) for name in "abc"})
    assert "a" in lazy
    assert (list(lazy), len(lazy), asked, lazy._made) == (["a", "b", "c"], 3, [], {})
    assert lazy["b"] is lazy["b"]
    assert (asked, list(lazy._made)) == (["b"], ["b"])


def test_importing_derives_nothing() -> None:
    import subprocess
    import sys

    code = "from analytic import catalogue; catalogue.keys(); print(catalogue._made)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "{}"


def test_it_is_a_mapping_that_cannot_be_written() -> None:
    assert isinstance(catalogue, Mapping)
    assert "nngp.erf.ricci" in catalogue
    assert "nngp.erf.rich" not in catalogue
    assert 3 not in catalogue
    assert catalogue.get("nngp.erf.rich") is None
    assert len(catalogue) == len(set(catalogue)) == len(list(catalogue))
    with pytest.raises(TypeError):
        catalogue["nngp.erf.ricci"] = None


def test_the_ten_activations_are_there() -> None:
    assert tuple(ACTIVATIONS) == NAMES


@formulas
def test_a_name_of_the_design_is_there_with_its_arguments(name) -> None:
    _, act, what = name.split(".")
    formula = catalogue[name]
    expected = {*ARGUMENTS[what], *EXTRA.get(act, ())}
    assert formula.name == name
    assert {symbol.name for symbol in formula.args} == expected
    assert formula.source


@pytest.mark.parametrize(
    ("wrong", "right"),
    [("nngp.erf.richi", "nngp.erf.ricci"), ("nngp.gellu.omega", "nngp.gelu.omega"),
     ("erf.ricci", "nngp.erf.ricci"), ("nngp.relu.kernel", "nngp.relu_power.kernel")],
)  # fmt: skip
def test_a_wrong_name_is_told_the_nearest(wrong, right) -> None:
    for caught in (KeyError, ValueError, InputError):
        with pytest.raises(caught) as error:
            catalogue[wrong]
    assert repr(wrong) in str(error.value)
    assert right in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("wrong", ["", "xyzzy", 3, None, ("nngp", "erf")])
def test_any_other_key_is_refused_too(wrong) -> None:
    with pytest.raises(KeyError):
        catalogue[wrong]


@formulas
def test_torch_keeps_the_type_and_agrees_in_both(name) -> None:
    """float32 rounds at 6e-8; ten activations lose at most two digits at these points."""
    formula = catalogue[name]
    double, single = (formula.torch(**example(formula, t)) for t in (torch.float64, torch.float32))
    assert (double.dtype, single.dtype) == (torch.float64, torch.float32)
    torch.testing.assert_close(single.double(), double, rtol=1e-5, atol=1e-6)


@formulas
def test_torch_keeps_gradients(name) -> None:
    """By autograd and by central differences of the exact value, whose error is h^2 = 1e-12."""
    formula = catalogue[name]
    at = example(formula)
    variable = "kxy" if "kxy" in at else "r"
    (slope,) = torch.autograd.grad(formula.torch(**at).sum(), at[variable])
    point = {k: v[1].item() if torch.is_tensor(v) else v for k, v in at.items()}
    h = 2.0**-20
    high, low = (
        formula.evaluate(25, **point | {variable: point[variable] + s * h}) for s in (1, -1)
    )
    assert slope[1].item() == pytest.approx(float((high - low) / (2 * h)), rel=1e-6, abs=1e-9)
    assert torch.isfinite(slope).all()
