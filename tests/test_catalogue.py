"""Is the catalogue a lazy, complete mapping whose formulas run on tensors of any float type?"""

import pickle
import subprocess
import sys
from collections.abc import Mapping
from functools import partial

import numpy as np
import pytest
import torch

from analytic import catalogue
from analytic.activations import ACTIVATIONS, erf
from analytic.catalogue import ACTIVATIONS as catalogue_names
from analytic.catalogue import Catalogue
from analytic.expressions.arguments import InputError
from analytic.expressions.formula import Formula
from analytic.geometry import nngp

EXTRA = {  # the ten activations, and the name of the parameter that six of them take
    **{"erf": "", "monomial": "q", "relu_power": "q", "sine": "w", "cosine": "w"},
    **{"exponential": "w", "gaussian": "", "gelu": "", "elu": "", "snake": "a"},
}
ARGUMENTS = {  # the design's table, and the two eigenvalues of the metric
    "kernel": ("kxx", "kxy", "kyy"),
    "slope": ("kxx", "kxy", "kyy"),
    "omega": ("sigma", "zeta", "r"),
    "tangential": ("sigma", "zeta", "r"),
    "radial": ("sigma", "zeta", "r"),
    "magnification": ("d", "sigma", "zeta", "r"),
    "ricci": ("d", "sigma", "zeta", "r"),
}
VALUES = {"d": 3, "sigma": 1.25, "zeta": 0.5, "kyy": 0.75, "q": 3, "w": 0.75, "a": 0.75}
ALL = [f"nngp.{act}.{what}" for act in EXTRA for what in ARGUMENTS]
formulas = pytest.mark.parametrize("name", ALL)


def example(formula, dtype=torch.float64) -> dict:
    """A point with two tensors, kxx and kxy or r, that ask for gradients."""
    values = {symbol.name: VALUES.get(symbol.name) for symbol in formula.args}
    free = {"kxx": [0.5, 2.0, 8.0], "kxy": [-0.5, 0.25, 1.0], "r": [0.25, 0.5, 2.0]}
    tensors = {k: torch.tensor(v, dtype=dtype, requires_grad=True) for k, v in free.items()}
    return values | {k: tensors[k] for k in values if k in tensors}


def test_nothing_is_derived_before_it_is_asked_for() -> None:
    derivations = []

    def derive(name) -> Formula:
        derivations.append(name)
        return nngp.omega(erf)

    lazy = Catalogue({name: partial(derive, name) for name in "abc"})
    assert "a" in lazy
    assert (list(lazy), len(lazy), derivations, lazy._derived) == (["a", "b", "c"], 3, [], {})
    assert lazy["b"] is lazy["b"]
    assert (derivations, list(lazy._derived)) == (["b"], ["b"])


def test_importing_derives_nothing() -> None:
    code = "from analytic import catalogue; catalogue.keys(); print(catalogue._derived)"
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
    assert list(ACTIVATIONS) == list(EXTRA)


@formulas
def test_a_name_of_the_design_is_there_with_its_arguments(name) -> None:
    _, act, what = name.split(".")
    formula = catalogue[name]
    expected = {*ARGUMENTS[what], *EXTRA[act]}
    assert formula.name == name
    assert {symbol.name for symbol in formula.args} == expected
    assert formula.citation


@pytest.mark.parametrize(
    ("wrong", "right"),
    [("nngp.erf.richi", "nngp.erf.ricci"), ("nngp.gellu.omega", "nngp.gelu.omega"),
     ("erf.ricci", "nngp.erf.ricci"), ("nngp.rellu.kernel", "nngp.relu.kernel")],
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
    """Central differences in numpy err by h^2 = 2e-10 and by rounding/h = 1e-11."""
    formula = catalogue[name]
    at, h = example(formula), 2.0**-16
    variable = "kxy" if "kxy" in at else "r"
    (slope,) = torch.autograd.grad(formula.torch(**at).sum(), at[variable])
    fixed = {k: v.detach().numpy() if torch.is_tensor(v) else v for k, v in at.items()}
    high, low = (formula.numpy(**fixed | {variable: fixed[variable] + s * h}) for s in (1, -1))
    np.testing.assert_allclose(slope, (high - low) / (2 * h), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("act", [a for a in EXTRA if a != "elu"])  # a quadrature in the angle
def test_the_gradient_of_a_kernel_at_coincident_points_is_the_slope(act) -> None:
    """Price: d(kernel)/d(kxy) = E[phi' phi'], on the diagonal of a Gram matrix, too: G(V) there."""
    formula = catalogue[f"nngp.{act}.kernel"]
    k = torch.tensor(2.0, dtype=torch.float64, requires_grad=True)
    extra = {name: VALUES[name] for name in EXTRA[act]}
    (slope,) = torch.autograd.grad(formula.torch(kxx=2.0, kxy=k, kyy=2.0, **extra), k)
    assert slope.item() == pytest.approx(float(ACTIVATIONS[act].G.evaluate(V=2, **extra)), rel=1e-9)


@pytest.mark.parametrize("name", [n for n in ALL if not n.endswith(("kernel", "slope"))])
def test_a_finite_value_has_a_finite_gradient(name) -> None:
    formula = catalogue[name]
    at = example(formula)
    at["r"] = torch.tensor([0.0, 1e-8, 1.0, 1e4], dtype=torch.float64, requires_grad=True)
    value = formula.torch(**at)
    (slope,) = torch.autograd.grad(value.sum(), at["r"])
    assert torch.isfinite(slope[torch.isfinite(value)]).all()


def test_the_names_of_activations_are_those_that_exist() -> None:
    assert catalogue_names == tuple(ACTIVATIONS)


def test_relu_has_every_formula_but_those_of_an_ntk_metric() -> None:
    """phi' jumps, so that E[phi''^2], which the NTK metric needs, diverges."""
    names = {name.replace("relu_power", "relu") for name in catalogue if "relu_power" in name}
    metric = {f"ntk.relu.{what}" for what in ("magnification", "ricci", "origin")}
    metric |= {f"deep.relu.ntk.{what}" for what in ("magnification", "ricci")}
    assert {name for name in catalogue if ".relu." in name} == names - metric


@pytest.mark.parametrize("what", ARGUMENTS)
def test_relu_is_the_first_power_of_relu(what: str) -> None:
    formula, power = catalogue[f"nngp.relu.{what}"], catalogue[f"nngp.relu_power.{what}"]
    assert {symbol.name for symbol in formula.args} == set(ARGUMENTS[what])
    values = {"kxx": "0.5", "kxy": "0.3", "kyy": "0.75", "d": 3, "sigma": "1.25", "zeta": "0.5"}
    at = {name: values.get(name, "0.8") for name in ARGUMENTS[what]}
    assert abs(formula.evaluate(30, **at) - power.evaluate(30, q=1, **at)) < 1e-28


def test_jupyter_completes_the_names() -> None:
    assert catalogue._ipython_key_completions_() == list(catalogue)


@pytest.mark.parametrize("name", ["nngp.monomial.magnification", "nngp.relu_power.magnification"])
def test_a_volume_that_vanishes_has_a_gradient(name) -> None:
    r = torch.zeros((), dtype=torch.float64, requires_grad=True)
    value = catalogue[name].torch(d=3, sigma=1.0, zeta=0.0, r=r, q=2)
    assert value.item() == 0
    assert torch.autograd.grad(value, r)[0].item() == 0


@pytest.mark.parametrize(
    "name", ["nngp.erf.ricci", "spline.uniform.rf", "perturbation.magnification"]
)
def test_a_formula_that_was_compiled_can_be_sent_to_another_process(name: str) -> None:
    formula = catalogue[name]
    assert callable(formula.numpy)
    assert callable(formula.torch)
    sent = pickle.loads(pickle.dumps(formula))
    assert sent == formula
    assert sent.numpy is not formula.numpy
