"""Metrics of NNGP and tangent kernels against automatic differentiation, differences and the catalogue."""

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
import sympy as sp
import torch
from torch import Tensor

from analytic import catalogue
from analytic.activations import elu, erf, gaussian, gelu, relu, sine, softplus, tanh
from analytic.activations.activation import Activation
from analytic.splines import INITIALISATIONS, Initialisation
from numeric import geometry
from numeric.infinite import NTK, FullyConnected, Standard
from numeric.inputs import InputError
from numeric.kernels import FunctionKernel, Tiled
from numeric.splines import SplineKernel

X = torch.tensor(
    [[0.3, -0.8, 0.5], [1.2, 0.4, -0.1], [2.0, -3.0, 1.0], [1e-3, 0.0, 2e-3]], dtype=torch.float64
)
ORIGIN = torch.zeros(1, 3, dtype=torch.float64)
SIGMA_W, SIGMA_B = (1.3, 0.9, 1.6), (0.2, 0.5, 0.1)


def written_out(net: FullyConnected, tangent: bool) -> FunctionKernel:
    """The recursion on two points as a textbook prints it, in textbook forms that are smooth at y = x."""

    def kernel(x: Tensor, y: Tensor) -> Tensor:
        d, w, b = x.shape[1], net.sigma_w, net.sigma_b
        xx, yy, xy = x.square().sum(1)[:, None], y.square().sum(1)[None], x @ y.T
        kxx, kxy, kyy = (w[0] ** 2 / d * part + b[0] ** 2 for part in (xx, xy, yy))
        weights, biases = net.parametrisation.rates(d, w[0], b[0])
        theta = weights / d * xy + biases
        for act, scale, bias in zip(net.activations, w[1:], b[1:], strict=True):
            weights, biases = net.parametrisation.rates(None, scale, bias)
            k, slope = act.kernel.torch(kxx, kxy, kyy), act.slope.torch(kxx, kxy, kyy)
            theta = weights * k + biases + scale**2 * slope * theta
            kxx, kyy = (scale**2 * act.F.torch(V) + bias**2 for V in (kxx, kyy))
            kxy = scale**2 * k + bias**2
        return theta if tangent else kxy

    return FunctionKernel(kernel)


@pytest.mark.parametrize("tangent", [False, True], ids=["NNGP", "NTK"])
@pytest.mark.parametrize("parametrisation", [NTK(), Standard(7)], ids=["NTK", "standard"])
@pytest.mark.parametrize("act", [sine(0.7), gaussian], ids=str)
@pytest.mark.parametrize("sigma_b", [SIGMA_B, 0.0], ids=["biases", "none"])
def test_jets_are_those_of_automatic_differentiation(
    act: Activation, parametrisation: NTK | Standard, tangent: bool, sigma_b: float
) -> None:
    net = FullyConnected([act, act], 2, SIGMA_W, sigma_b, parametrisation)
    ours = (net.ntk if tangent else net.nngp).jet(x := torch.cat([X, ORIGIN]))
    theirs = written_out(net, tangent).jet(x)
    for part in ("value", "drift", "metric"):
        one, other = getattr(ours, part), getattr(theirs, part)
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12 * other.abs().max().item())


def differences(kernel: Callable[[Tensor, Tensor], Tensor], x: Tensor, h: float) -> Tensor:
    """The mixed second difference of k at x = y, with an error of order h^2: (n, d) -> (n, d, d)."""
    d = x.shape[1]
    moves = h * torch.cat([torch.eye(d), -torch.eye(d)]).to(x)
    signs = torch.ones(2 * d).to(x)
    signs[d:] = -1
    grams = torch.stack([kernel(point + moves, point + moves) for point in x])
    signed = (grams * signs[:, None] * signs).unflatten(1, (2, d)).unflatten(3, (2, d))
    return signed.sum((1, 3)) / (4 * h**2)


CASES = [
    (act, tangent) for act in (erf, gelu, tanh, softplus, elu) for tangent in (False, True)
] + [(relu, False)]  # fmt: skip


@pytest.mark.parametrize(
    ("act", "tangent"), CASES, ids=lambda case: getattr(case, "name", str(case))
)
def test_metrics_are_second_differences_of_the_gram_matrix(act: Activation, tangent: bool) -> None:
    net = FullyConnected(act, 2, SIGMA_W, SIGMA_B)
    kernel = net.ntk if tangent else net.nngp
    ours, theirs = geometry.metric(kernel, X), differences(kernel, X, 1e-3)
    # kernels with a kink, or with a jump of phi'', have a third difference of order h
    atol = {relu: 1e-2, elu: 1e-2}.get(act, 1e-5) * ours.abs().max().item()
    torch.testing.assert_close(ours, theirs, rtol=0, atol=atol)


CATALOGUE = {"erf": erf, "gelu": gelu, "elu": elu, "gaussian": gaussian, "relu": relu}


@pytest.mark.parametrize(
    ("kind", "zeta"),
    [("nngp", 0.4), ("nngp", 0.0), ("ntk", 0.4)],  # without biases, Standard(1) trains none
)
@pytest.mark.parametrize("name", CATALOGUE)
def test_magnifications_are_those_of_the_catalogue(name: str, kind: str, zeta: float) -> None:
    """Weights of the first layer are not divided by d there, and the readout has no bias."""
    if (name, kind) == ("relu", "ntk"):
        return  # which has none, and is refused below
    d, sigma, xi, depth, act = X.shape[1], 1.3, 0.8, 2, CATALOGUE[name]
    sigma_w = (sigma * math.sqrt(d), sigma, xi if kind == "ntk" else 1.0)
    net = FullyConnected(act, depth, sigma_w, (zeta, zeta, 0.0), Standard(1))
    volume = torch.linalg.det(geometry.metric(getattr(net, kind), X)).sqrt()
    values = {"d": d, "sigma": sigma, "zeta": zeta, "depth": depth} | (
        {"xi": xi} if kind == "ntk" else {}
    )
    formula = catalogue[f"deep.{name}.{kind}.magnification"]
    for r, ours in zip(X.norm(dim=1).tolist(), volume.tolist(), strict=True):
        theirs = float(formula.evaluate(12, r=r, **values))
        assert ours == pytest.approx(theirs, rel=1e-9)


def test_metrics_of_composed_kernels_follow_from_their_parts() -> None:
    net = FullyConnected(sine(0.7), 2, SIGMA_W, SIGMA_B)
    quadratic = FunctionKernel(lambda x, y: (x @ y.T + 1) ** 2)
    composed = 0.3 * net.nngp * net.ntk + Tiled(net.ntk * quadratic, 2, 2)
    nngp, ntk = (written_out(net, tangent).function for tangent in (False, True))
    whole = FunctionKernel(lambda x, y: 0.3 * nngp(x, y) * ntk(x, y) + ntk(x, y) * quadratic(x, y))
    theirs = whole.metric(X)
    torch.testing.assert_close(geometry.metric(composed, X), theirs, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("act", [erf, gelu, relu, tanh], ids=lambda act: act.name)
def test_single_precision_keeps_its_digits(act: Activation) -> None:
    net = FullyConnected(act, 3, 1.4, 0.3)
    for kernel in (net.nngp, net.ntk)[: 1 if act is relu else 2]:
        single, double = kernel.metric(X.float()), kernel.metric(X.float().double())
        assert single.dtype == torch.float32
        off = (single - double).abs().amax((1, 2)) / double.abs().amax((1, 2))
        assert off.max() < 1e-5


LINE = torch.tensor([[-1.7], [-0.3], [0.0], [0.4], [2.5]], dtype=torch.float64)
SPLINES = {
    "signs": SplineKernel(INITIALISATIONS["signs"], {"B": 0.9}),
    "uniform": SplineKernel(INITIALISATIONS["uniform"], {"A": 1.3, "B": 0.7}),
    "gaussian": SplineKernel(INITIALISATIONS["gaussian"], {"sa": 1.2, "sb": 0.7}),
    "onesided": SplineKernel(INITIALISATIONS["onesided"]),
}


def require_differences(kernel: SplineKernel, x: Tensor) -> None:
    """Metric and drift are differences of the Gram matrix, whose third derivatives jump at y = x."""
    h, jet = 1e-4, kernel.jet(x)
    assert torch.equal(jet.value, kernel.diagonal(x))
    assert torch.equal(jet.metric, kernel.metric(x))
    off = (geometry.metric(kernel, x) - differences(kernel, x, h)).abs()
    assert (off <= 2 * h * (1 + x.abs()[..., None])).all()
    drift = (kernel.diagonal(x + h) - kernel.diagonal(x - h)) / (4 * h)
    torch.testing.assert_close(jet.drift[:, 0], drift, rtol=1e-8, atol=h**2)


@pytest.mark.parametrize("law", SPLINES)
def test_spline_kernels_have_the_metric_of_their_active_units(law: str) -> None:
    kernel = SPLINES[law]
    x = LINE[LINE[:, 0] != 0] if law == "onesided" else LINE  # its metric bends at the first knot
    require_differences(kernel, x)
    single = kernel.metric(x.float())
    assert single.dtype == torch.float32
    assert single.shape == (len(x), 1, 1)
    torch.testing.assert_close(single.double(), kernel.metric(x.float().double()))


@pytest.mark.parametrize(("law", "places"), [("signs", [-1.7, 2.5]), ("onesided", [-0.3, 2.5])])
def test_tangent_kernels_of_splines_have_a_metric_where_there_are_no_knots(
    law: str, places: list[float]
) -> None:
    require_differences(replace(SPLINES[law], readout=0.5), torch.tensor(places).double()[:, None])


@pytest.mark.parametrize(
    ("law", "x"), [("signs", -0.3), ("signs", 0.9), ("uniform", 2.5), ("gaussian", 0.0), ("onesided", 1.0)]
)  # fmt: skip
def test_a_kink_of_a_spline_kernel_on_the_diagonal_is_refused(law: str, x: float) -> None:
    with pytest.raises(InputError, match="kink at y = x"):
        geometry.metric(replace(SPLINES[law], readout=0.5), [[-5e3 * (law == "signs")], [x]])


def test_the_metric_of_a_law_of_ones_own_knows_its_correlations() -> None:
    """The derivative at y = x is (E[a^2] x - E[ab]) / 2; in polar coordinates E[ab] is 1/4."""
    a, b = sp.symbols("a b", real=True)
    law = Initialisation.of(sp.exp(-(a**2 + b**2) / 2) / (2 * sp.pi) * (1 + a * b / (a**2 + b**2)))
    require_differences(SplineKernel(law), LINE)
    jet = SplineKernel(law).jet(LINE)
    torch.testing.assert_close(jet.drift[:, 0], (LINE[:, 0] - 0.25) / 2)


def test_kernels_without_a_metric_are_refused() -> None:
    with pytest.raises(InputError, match=r"NTK metric of relu does not exist: phi' jumps at 0"):
        geometry.metric(FullyConnected(relu, 2).ntk, X)
    with pytest.raises(InputError, match="too large"):
        geometry.metric(FullyConnected(erf, 2).nngp, 1e200 * X)  # finite, but its square is not
