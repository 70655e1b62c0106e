"""Single layers, quadratures, rates of training and mixtures, and what a network refuses."""

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from mpmath import mp, mpf
from torch import Tensor

from analytic import catalogue
from analytic.activations import (
    affine,
    elu,
    erf,
    gaussian,
    gelu,
    hermite,
    leaky_relu,
    monomial,
    polynomial,
    relu,
    relu_power,
    sigmoid,
    sign,
    silu,
    sine,
    softplus,
    step,
    tanh,
)  # fmt: skip
from analytic.activations.activation import Activation
from analytic.expressions import quadrature
from analytic.expressions.arguments import InputError
from numeric.infinite import NTK, FullyConnected, Standard
from numeric.infinite.layers import Layer
from numeric.infinite.mehler import expand

pytestmark = pytest.mark.usefixtures("one_thread")

F64 = torch.float64


def normal(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=F64)


def floats(*values: Any) -> Tensor:
    return torch.tensor(values, dtype=F64)


def logistic(z: mpf) -> mpf:
    return 1 / (1 + mp.exp(-z))


SMOOTH: dict[str, tuple[Activation, Callable, Callable]] = {  # phi and phi' on mpmath
    "tanh": (tanh, mp.tanh, lambda z: mp.sech(z) ** 2),
    "sigmoid": (sigmoid, logistic, lambda z: logistic(z) * logistic(-z)),
    "softplus": (softplus, lambda z: mp.log1p(mp.exp(z)), logistic),
    "silu": (silu, lambda z: z * logistic(z), lambda z: logistic(z) * (1 + z * logistic(-z))),
    "elu": (elu, lambda z: z if z > 0 else mp.expm1(z), lambda z: mp.exp(min(z, mpf(0)))),
}


@pytest.mark.parametrize("name", SMOOTH)
def test_quadratures_agree_with_mpmath(name: str) -> None:
    """One pair that is nearly opposite and one that is not, to 15 digits."""
    act, phi, slope = SMOOTH[name]
    x, y = floats([0.3, -0.7]), floats([-0.3001, 0.7], [0.9, 0.4])
    net, kinks = FullyConnected(act, 1, 1.25, 0.5), [0] * len(act.kinks)
    nngp, ntk = net.nngp(x, y)[0].tolist(), net.ntk(x, y)[0].tolist()
    with mp.workdps(15):
        for j in range(len(y)):
            inner = torch.stack([x[0] @ x[0], x[0] @ y[j], y[j] @ y[j]]).tolist()
            gram = [mpf(v) * 1.25**2 / 2 + 0.25 for v in inner]
            k = 1.25**2 * quadrature.pair(phi, phi, *gram, kinks) + 0.25
            theta = k + 1.25**2 * quadrature.pair(slope, slope, *gram, kinks) * gram[1]
            assert abs(nngp[j] - k) < 1e-13
            assert abs(ntk[j] - theta) < 1e-13


def plane(phi: Callable[[Tensor], Tensor], kxx: float, kxy: float, kyy: float) -> float:
    """E[phi(u) phi(v)] by the trapezoidal rule for u, and for v given u."""
    t = torch.arange(-170, 171).double() / 20
    weight, rho = torch.exp(-t * t / 2) / (20 * math.sqrt(2 * math.pi)), kxy / math.sqrt(kxx * kyy)
    v = math.sqrt(kyy) * (rho * t[:, None] + math.sqrt(max(0.0, 1 - rho**2)) * t)
    return ((weight * phi(math.sqrt(kxx) * t)) @ (phi(v) @ weight)).item()


@pytest.mark.parametrize("sigma", [(1.0, 0.1), (1.6, 0.4)], ids=["ordered", "chaotic"])
def test_tanh_keeps_its_digits_for_thirty_layers(sigma: tuple[float, float]) -> None:
    x, w, b = normal(2, 3, seed=8), sigma[0] ** 2, sigma[1] ** 2
    k = (w / 3 * x @ x.T + b).flatten().tolist()
    theta = list(k)
    for _ in range(30):
        pairs = [(k[0], k[0], k[0]), (k[0], k[1], k[3]), (k[0], k[1], k[3]), (k[3], k[3], k[3])]
        slope = [plane(lambda z: torch.cosh(z) ** -2, *pair) for pair in pairs]
        k = [w * plane(torch.tanh, *pair) + b for pair in pairs]
        theta = [p + w * q * t for p, q, t in zip(k, slope, theta, strict=True)]
    net = FullyConnected(tanh, 30, *sigma)
    for computed, true in ((net.nngp(x), k), (net.ntk(x), theta)):
        torch.testing.assert_close(computed, floats(*true).reshape(2, 2), rtol=1e-11, atol=0)


@pytest.mark.parametrize("acts", [(relu, tanh), (tanh, relu), (silu, leaky_relu(), erf)])
def test_quadratures_may_stand_beside_angles(acts: tuple[Activation, ...]) -> None:
    """A quadrature leaves 1e-13 of a covariance unknown, but an angle that vanishes still does."""
    net, x = FullyConnected(acts, len(acts), 1.2, 0.1), normal(6, 2, seed=3)
    for call in (net.nngp, net.ntk):
        both = call(torch.cat([x, x[:3]]))
        scale = both.diagonal().max().item()
        torch.testing.assert_close(call(x, x.clone()), both[:6, :6], rtol=0, atol=1e-13 * scale)
        torch.testing.assert_close(both[:3, 6:], both[:3, :3], rtol=0, atol=1e-13 * scale)
    for part in net.nngp_gradient(torch.cat([x, x[:3]]), torch.ones(9, 9, dtype=F64)):
        assert part.isfinite().all()


@pytest.mark.parametrize("what", ["radial", "tangential"])
@pytest.mark.parametrize("act", [erf, gelu, gaussian], ids=lambda act: act.name)
def test_distances_of_features_are_those_of_the_catalogue(act: Activation, what: str) -> None:
    """(K_xx - 2 K_xy + K_yy) / |x - y|^2 along x and across it, extrapolated to |x - y| = 0."""
    d, sigma, zeta, r = 3, 0.8, 0.3, 1.3
    net = FullyConnected(act, 1, (sigma * math.sqrt(d), 1.0), (zeta, 0.0))
    x = floats([r, 0.0, 0.0])
    way = floats([1.0, 0.0, 0.0] if what == "radial" else [0.0, 0.6, 0.8])
    steps = [0.4 / 2**k for k in range(5)]
    rows = []
    for h in steps:
        K = net.nngp(torch.cat([x - h / 2 * way, x + h / 2 * way]))
        rows.append(((K[0, 0] - K[0, 1] + K[1, 1] - K[1, 0]) / h**2).item())
    for order in range(1, len(steps)):  # Richardson: powers of h^2
        rows = [(4**order * b - a) / (4**order - 1) for a, b in pairwise(rows)]
    true = catalogue[f"nngp.{act.name}.{what}"].numpy(sigma=sigma, zeta=zeta, r=r)
    assert abs(rows[0] / true - 1) < 1e-9


def test_rates_of_training_are_those_of_weights_and_biases() -> None:
    """Two networks by hand: Theta = sum over layers of what moving that layer alone does."""
    x, y, w, b = floats([1.0, -2.0]), floats([0.5, 0.25]), (1.5, 0.75), (0.5, 0.0)
    k = w[0] ** 2 / 2 * (x @ y.T).item() + b[0] ** 2
    gram = [w[0] ** 2 / 2 * (p @ p.T).item() + b[0] ** 2 for p in (x, y)]
    phi, slope = (part.numpy(gram[0], k, gram[1]) for part in (erf.kernel, erf.slope))
    computed = FullyConnected(erf, 1, w, b).ntk(x, y).item()
    assert computed == pytest.approx(w[1] ** 2 * phi + w[1] ** 2 * slope * k, rel=1e-14)
    computed = FullyConnected(erf, 1, w, b, Standard(10)).ntk(x, y).item()
    first = (x @ y.T).item() + 1  # weights and biases of the first layer move at rate 1
    assert computed == pytest.approx(10 * phi + w[1] ** 2 * slope * first, rel=1e-14)
    assert Standard(10).rates(None, 2.0, 0.0) == (10.0, 0.0)  # no biases, nothing to move
    assert NTK().rates(7, 2.0, 3.0) == (4.0, 9.0)


def test_one_activation_or_one_for_each_and_so_with_scales() -> None:
    x = normal(4, 3, seed=1)
    once = FullyConnected(erf, 3, 1.25, 0.5)
    each = FullyConnected([erf, erf, erf], 3, [1.25] * 4, (0.5,) * 4)
    assert torch.equal(once.ntk(x), each.ntk(x))
    assert each.activations == (erf,) * 3
    swapped = FullyConnected((relu, erf), 2, 1.25, 0.5).ntk(x)
    assert not torch.allclose(swapped, FullyConnected((erf, relu), 2, 1.25, 0.5).ntk(x))


@pytest.mark.parametrize("act", [polynomial([3]), hermite(0)], ids=["three", "one"])
def test_a_constant_has_a_constant_kernel(act: Activation) -> None:
    x, value = normal(3, 2, seed=1), act.phi.numpy(0.0)
    for depth in (1, 2):
        net = FullyConnected(act, depth, 1.5, 0.5)
        full = torch.full((3, 3), 2.25 * value**2 + 0.25, dtype=F64)
        torch.testing.assert_close(net.nngp(x), full)
        torch.testing.assert_close(net.ntk(x, x.clone()), full)


def test_a_shift_does_not_make_opposite_points_coincident() -> None:
    """2 relu + 1/2 by hand: E[relu] = sqrt(V / 2 pi), and opposite points are never both positive."""
    x, act = floats([0.6, 0.8]), affine(relu, 2, "1/2")
    V = 0.5
    mean = 2 * math.sqrt(V / (2 * math.pi))
    kxx, kxy = 2 * V + mean + 0.25, mean + 0.25  # E[phi^2] and E[phi(u) phi(-u)]
    true = 4 * relu.kernel.numpy(kxx, kxy, kxx) + 2 * math.sqrt(kxx / (2 * math.pi)) + 0.25
    computed = FullyConnected(act, 2, 1.0, 0.0).nngp(x, -x).item()
    assert computed == pytest.approx(true, rel=1e-13)


@pytest.mark.parametrize("act", [relu, erf, gelu, sine(1), relu_power("5/2"), step, tanh, elu])
def test_single_precision_stays_single(act: Activation) -> None:
    V = torch.tensor([0.5, 2.0])
    kxy, layer = torch.tensor([[0.4, -0.3], [0.9, 1.1]]), Layer(act)
    slopes = act.slope is not None
    sides = layer.rows(V, slopes), layer.rows(V, slopes)
    pairs = layer.pairs(*sides, kxy, V[:, None] * V - kxy**2, slopes)
    sharp = act.kernel.torch(V.double()[:, None], kxy.double(), V.double())
    for part in (pairs.kernel, layer.square(V), pairs.slope if slopes else pairs.kernel):
        assert part.dtype == torch.float32
    size = 16 * torch.finfo(torch.float32).eps * layer.square(V).max().item()
    torch.testing.assert_close(pairs.kernel.double(), sharp, rtol=0, atol=size)


X = floats([1.0, 2.0])
BAD: dict[str, dict[str, Any]] = {
    "depth = 0 was given, but depth must be a whole number at least 1": {"depth": 0},
    "depth = -1 was given": {"depth": -1},
    "depth = 2.5 was given": {"depth": 2.5},
    "depth = True was given": {"depth": True},
    "sigma_w has 2 entries, but depth 2 .* 3: give one number": {"sigma_w": [1.0, 1.0]},
    "sigma_b has 4 entries, but depth 2 .* 3": {"sigma_b": [0.0] * 4},
    "sigma_w must be finite and above 0, not 0": {"sigma_w": 0},
    "above 0, not -1": {"sigma_w": -1.0},
    "above 0, not nan": {"sigma_w": math.nan},
    "above 0, not inf": {"sigma_w": math.inf},
    "sigma_w must be one number above 0, or a list of them, not 'wide'": {"sigma_w": "wide"},
    "or a list of them, not '1.5'": {"sigma_w": "1.5"},
    "or a list of them, not True": {"sigma_w": True},
    r"or a list of them, not array\(\[\[1": {"sigma_w": np.eye(3)},
    r"or a list of them, not \[1.0, 'a', 1.0\]": {"sigma_w": [1.0, "a", 1.0]},
    "sigma_b must be finite and at least 0, not -0.1": {"sigma_b": -0.1},
    "sigma_b must be finite and at least 0, not nan": {"sigma_b": math.nan},
    "3 activations were given for depth 2": {"activation": [relu] * 3},
    "0 activations were given for depth 2": {"activation": []},
    r"monomial leaves q open: fix it": {"activation": monomial()},
    "must be an Activation .* not <built-in method relu": {"activation": torch.relu},
    "must be an Activation .* not 'relu'": {"activation": "relu"},
    "must be an Activation .* not None": {"activation": [relu, None]},
    r"must be NTK\(\) or Standard\(width\), not 'ntk'": {"parametrisation": "ntk"},
}


@pytest.mark.parametrize("message", BAD)
def test_bad_networks_are_told(message: str) -> None:
    with pytest.raises(InputError, match=message):
        FullyConnected(**{"activation": relu, "depth": 2, **BAD[message]})


def test_bad_widths_and_jumps_are_told() -> None:
    for width in (0, 2.5, True):
        with pytest.raises(
            InputError, match=rf"width = {width} was given, but width must be a whole number"
        ):
            Standard(width)
    for acts in (sign, (relu, step)):
        with pytest.raises(InputError, match=r"no finite slope, for phi jumps at 0.* smoother"):
            FullyConnected(acts, 2).ntk(X)


@pytest.mark.parametrize(
    "scales", [(1.0, 2.0, 0.5), np.array([1, 2, 0.5]), torch.tensor([1, 2, 0.5])]
)
def test_scales_come_in_any_row_of_numbers(scales) -> None:
    assert FullyConnected(relu, 2, sigma_w=scales).sigma_w == (1.0, 2.0, 0.5)
    assert FullyConnected(relu, 2, sigma_w=scales[1]).sigma_w == (2.0, 2.0, 2.0)
    assert FullyConnected(relu, 2, parametrisation=Standard(np.int64(9))).parametrisation.width == 9


@pytest.mark.parametrize("scale", [10**5, 1e12, 1e20])
def test_a_slope_that_is_0_at_all_nodes_is_refused(scale: float) -> None:
    """tanh(1e5 z) is a step to all nodes and its slope 0: the NTK of this pair was 0.41, not 0.89."""
    x = torch.tensor([[1.0, 0.0], [0.6, 0.8]], dtype=torch.float64)
    net = FullyConnected(tanh.scaled(scale), depth=1, sigma_w=1.0, sigma_b=0.0)
    with pytest.raises(InputError, match="steep"):
        net.ntk(x)


def test_an_integer_that_torch_cannot_take_is_refused() -> None:
    one = torch.ones(1, 2, dtype=F64)
    with pytest.raises(InputError, match="fewer digits"):
        FullyConnected(tanh.scaled(10**20), 1, 1.0, 0.0).nngp(one)
    with pytest.raises(InputError, match="write it as a float"):
        expand(lambda z: torch.tanh(10**20 * z), one[0])


@pytest.mark.parametrize(
    ("acts", "kernel", "degree"),
    [
        ((sign, sign), "nngp", 0.0),
        ((relu_power(2), relu_power("3/4")), "ntk", 1.5),
        ((monomial(3), relu_power("3/4")), "ntk", 2.25),
    ],
)
def test_collinear_points_stay_so_through_homogeneous_layers(
    acts: tuple[Activation, ...], kernel: str, degree: float
) -> None:
    """K(x, c x) = c^degree K(x, x). A determinant by differences would cost half the digits: 1e-8."""
    x = torch.tensor([[0.3, -1.1, 0.7, 0.2, 1.9]], dtype=torch.float64)
    k = getattr(FullyConnected(acts, 2, 1.3, 0.0), kernel)
    for c in (3.0, 0.7, math.pi, 1e-3):
        assert k(x, c * x).item() == pytest.approx(c**degree * k(x).item(), rel=1e-12)


def test_a_slope_with_a_pole_keeps_single_precision() -> None:
    """phi' is z^(-1/4), whose average over a sector has nodes that single precision takes for 0."""
    net, x = FullyConnected(relu_power("3/4"), 1, 1.3, 0.5), normal(6, 3, seed=4)
    eps = torch.finfo(torch.float32).eps
    torch.testing.assert_close(net.ntk(x.float()).double(), net.ntk(x), rtol=64 * eps, atol=0)
