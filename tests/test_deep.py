"""Deep kernels: one layer is the shallow case, layers may differ, and floats agree with 30 digits."""

from typing import Any

import numpy as np
import pytest
import torch
from mpmath import mp, mpf

from analytic.activations import ACTIVATIONS, erf, gaussian, monomial, relu, sine
from analytic.catalogue import catalogue
from analytic.checks.kernel_oracles.differences import metric_by_differences
from analytic.checks.oracles import MetricJet, point_at_radius
from analytic.expressions.arguments import InputError
from analytic.geometry import deep

FIXED = {"q": 2, "w": mpf("0.7"), "a": mpf("0.6")}  # parameters of activations
SETTING = {"d": 3, "sigma": mpf("0.8"), "zeta": mpf("0.5"), "xi": mpf("1.3"), "r": mpf("1.1")}
KINDS = ("nngp", "ntk")
QUANTITIES = ("magnification", "ricci")


def value(name: str, **more: Any) -> Any:
    """A catalogue entry at the setting; values that it does not take are left out."""
    formula, values = catalogue[name], SETTING | FIXED | more
    return formula.evaluate(30, **{s.name: values[s.name] for s in formula.args})


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("act", [name for name in ACTIVATIONS if name != "elu"])
def test_depth_one_is_shallow(act: str, kind: str) -> None:
    for what in QUANTITIES:
        shallow = value(f"{kind}.{act}.{what}")
        one = value(f"deep.{act}.{kind}.{what}", depth=1)
        assert abs(one - shallow) <= mpf(10) ** -28 * abs(shallow)


@pytest.mark.parametrize("kind", KINDS)
def test_equal_layers_are_the_uniform_network(kind: str) -> None:
    layers = deep.layered([erf] * 3, ntk=kind == "ntk")
    scales = {f"{name}_{l}": SETTING[name] for name in ("sigma", "zeta") for l in (1, 2, 3)}
    for what, formula in zip(QUANTITIES, layers, strict=True):
        values = SETTING | scales
        by_layers = formula.evaluate(30, **{s.name: values[s.name] for s in formula.args})
        uniform = value(f"deep.erf.{kind}.{what}", depth=3)
        assert abs(by_layers - uniform) <= mpf(10) ** -28 * abs(uniform)


def _by_hand(ntk: bool) -> Any:
    """Sine, then a quadratic unit, then a Gaussian bump, each with scales of its own."""
    acts = (sine("0.7"), monomial(2), gaussian)
    scales = [(mpf("0.8"), mpf("0.5")), (mpf("1.2"), mpf("0.3")), (mpf("0.6"), mpf("0.9"))]
    xi = mpf("1.3")

    def kernel(x: Any, y: Any) -> Any:
        gram = [mp.fdot(x, x), mp.fdot(x, y), mp.fdot(y, y)]
        theta, last = 1 + gram[1], len(acts) - 1
        for l, (act, (sigma, zeta)) in enumerate(zip(acts, scales, strict=True)):
            covariances = [sigma**2 * k + zeta**2 for k in gram]
            xx, xy, yy = covariances
            triples = ((xx, xx, xx), (xx, xy, yy), (yy, yy, yy))
            gram = [act.kernel.mpmath(*triple) for triple in triples]
            slope = act.slope.mpmath(xx, xy, yy)
            if l < last:
                theta = gram[1] + 1 + scales[l + 1][0] ** 2 * slope * theta
            else:
                theta = gram[1] + xi**2 * slope * theta
        return theta if ntk else gram[1]

    return acts, scales, kernel


@pytest.mark.parametrize("kind", KINDS)
def test_layers_may_differ(kind: str) -> None:
    acts, scales, kernel = _by_hand(kind == "ntk")
    values = {"d": 2, "r": mpf("0.9"), "xi": mpf("1.3")}
    for l, (sigma, zeta) in enumerate(scales, 1):
        values |= {f"sigma_{l}": sigma, f"zeta_{l}": zeta}
    with mp.workdps(40):
        jet = metric_by_differences(kernel, point_at_radius(values["r"], 2))
        truth = [MetricJet.volume(jet), MetricJet.scalar(jet)]
    for formula, true in zip(deep.layered(acts, ntk=kind == "ntk"), truth, strict=True):
        ours = formula.evaluate(30, **{s.name: values[s.name] for s in formula.args})
        assert abs(ours - true) <= mpf(10) ** -25 * abs(true)


RADII = (0.0, 1e-8, 1e-3, 0.3, 1.0, 7.0, 100.0)


DEPTHS = [(act, depth) for act in ("erf", "sine", "snake") for depth in (2, 5)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("act", "depth"), [*DEPTHS, ("monomial", 2)])  # z^32 leaves the floats
def test_floats_follow_thirty_digits(act: str, depth: int, kind: str) -> None:
    values = {"d": 3, "sigma": 0.8, "zeta": 0.5, "xi": 1.3, "q": 2, "w": 0.7, "a": 0.6}
    for what in QUANTITIES:
        formula = catalogue[f"deep.{act}.{kind}.{what}"]
        names = [s.name for s in formula.args]
        fixed = {name: v for name, v in (values | {"depth": depth}).items() if name in names}
        truth = [formula.evaluate(25, r=mpf(r), **fixed) for r in RADII]
        least = 1e-15 if what == "ricci" else 0.0  # a curvature may vanish at the origin
        for floats in (
            formula.numpy(r=np.array(RADII), **fixed),
            formula.torch(r=torch.tensor(RADII, dtype=torch.float64), **fixed).numpy(),
        ):
            errors = [abs(mpf(one) - true) for one, true in zip(floats, truth, strict=True)]
            assert all(e <= 1e-12 * abs(t) + least for e, t in zip(errors, truth, strict=True))


def test_torch_gradients_are_those_of_the_formula() -> None:
    formula = catalogue["deep.erf.ntk.ricci"]
    r = torch.tensor([0.4, 1.5], dtype=torch.float64, requires_grad=True)
    fixed = {"d": 2, "sigma": 0.9, "zeta": 0.4, "xi": 1.1, "depth": 3}
    formula.torch(r=r, **fixed).sum().backward()
    for at, gradient in zip(r.tolist(), r.grad.tolist(), strict=True):
        with mp.workdps(40):
            true = mp.diff(lambda t: formula.mpmath(r=t, **fixed), mpf(at))
        assert abs(gradient - true) <= 1e-10 * abs(true)


def test_a_line_is_flat() -> None:
    assert value("deep.erf.nngp.ricci", d=1, depth=4) == 0
    assert value("deep.erf.ntk.ricci", d=1, depth=4) == 0


def test_relu_is_flat_at_any_depth_and_has_no_tangent_metric() -> None:
    """Without biases a ReLU network only rescales: its NNGP kernel is homogeneous of degree one."""
    assert abs(value("deep.relu_power.nngp.ricci", q=1, zeta=0, d=2, depth=3)) < mpf(10) ** -25
    with pytest.raises(InputError, match="diverges"):
        deep.ntk_ricci(relu)


@pytest.mark.parametrize("depth", [0, -1, "2.5"])
def test_a_depth_is_a_positive_whole_number(depth: Any) -> None:
    with pytest.raises(InputError, match="depth"):
        value("deep.erf.nngp.ricci", depth=depth)


def test_no_layers_and_open_parameters_are_refused() -> None:
    for acts in ([], erf, [erf, None], [ACTIVATIONS["sine"]], [erf, ACTIVATIONS["monomial"]]):
        with pytest.raises(InputError, match="parameters fixed"):
            deep.layered(acts)
