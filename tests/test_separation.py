"""Small angles past curved layers: closed forms, and the same functions by quadrature."""

import math

import pytest
import sympy as sp
import torch
from mpmath import mp, mpf
from torch import Tensor

from analytic import activations as A
from analytic.activations.activation import Activation, activation
from analytic.expressions import quadrature
from analytic.expressions.arguments import InputError
from analytic.expressions.backends import compile_mpmath
from analytic.expressions.symbols import z
from numeric.infinite import FullyConnected
from numeric.infinite.layers import Layer
from numeric.infinite.separation import separate

F64 = torch.float64
CURVED = {
    "erf": A.erf, "gelu": A.gelu, "sine": A.sine(1), "cube": A.monomial(3), "relu^2": A.relu_power(2),
    "gaussian": A.gaussian, "quartic": A.polynomial([1, 0, -1, 0, "1/2"]), "gabor": A.gabor,
}  # fmt: skip
QUADRATURES = {
    "erf": activation("erf by nodes", sp.erf(z / sp.sqrt(2))),
    "sine": activation("sine by nodes", sp.sin(z)),
    "gelu": activation("gelu by nodes", z * (1 + sp.erf(z / sp.sqrt(2))) / 2),
    "relu^2": activation("relu^2 by nodes", sp.Piecewise((z**2, z > 0), (0, True)), kinks=(0,)),
}
ANGLES = (0.0, 1e-12, 1e-7, 1e-3, 0.1)
VARIANCES = (0.8, 0.8), (0.8, 0.8000001), (0.8, 0.9), (1.5, 0.02)


def pairs() -> list[tuple[mpf, mpf, mpf, mpf]]:
    """kxx, kyy, kxy and det, with kxy of both signs."""
    return [
        (mpf(a), mpf(b), side * mp.sqrt(mpf(a) * b) * mp.cos(t), mpf(a) * b * mp.sin(t) ** 2)
        for a, b in VARIANCES
        for t in map(mpf, ANGLES)
        for side in (1, -1)
    ]


def floats(column: list[mpf]) -> Tensor:
    return torch.tensor([float(v) for v in column], dtype=F64)


@pytest.mark.parametrize("act", CURVED.values(), ids=CURVED)
def test_distance_and_determinant_against_sixty_digits(act: Activation) -> None:
    """Roots are what is felt, of the determinant as an angle: to a few roundings of their scale."""
    with mp.workdps(60):
        rows = pairs()
        truth = []
        for a, b, c, _ in rows:
            k, x, y = mp.re(act.kernel.mpmath(a, c, b)), act.F.mpmath(a), act.F.mpmath(b)
            k = x if a == b == c else k  # where some textbook forms divide 0 by 0
            truth.append((k, mp.sqrt(abs(x + y - 2 * k)), mp.sqrt(abs(x * y - k**2)), x + y, x * y))
        kernel, spread, root, sizes, squares = (
            floats(column) for column in zip(*truth, strict=True)
        )
    computed, near = (
        separate(Layer(act), *map(floats, zip(*rows, strict=True)), kernel),
        root**2 < 0.01 * squares,
    )
    assert near.sum() >= 10
    assert computed.trusted[near].all()
    assert ((computed.spread.sqrt() - spread) / sizes.sqrt())[near].abs().max() < 2e-15
    assert ((computed.det.sqrt() - root) / squares.sqrt())[near].abs().max() < 2e-15


def test_what_is_too_steep_for_the_nodes_is_not_trusted() -> None:
    near = (1e9, 1e9 * (1 - 1e-10), 1e9 * (1 - 2e-10), 1e9**2 * 2e-10, math.exp(-0.1))
    computed = separate(Layer(A.sine(1)), *(torch.tensor([v], dtype=F64) for v in near))
    assert not computed.trusted.any()


@pytest.mark.parametrize("bias", [0.0, 0.3])
@pytest.mark.parametrize("name", QUADRATURES)
def test_quadratures_are_as_good_as_closed_forms(name: str, bias: float) -> None:
    """Covariances known to 1e-13 tell angles of 0.01, from where on they are left alone, to 1e-11."""
    g = torch.Generator().manual_seed(3)
    x, aside = (torch.randn(1, 3, generator=g, dtype=F64) for _ in range(2))
    gaps = (0, 1e-9, 1e-6, 1e-3, 0.05)
    y = torch.cat(
        [
            side * scale * x + gap * aside
            for side in (1, -1)
            for scale in (1, 1.01, 3)
            for gap in gaps
        ]
    )
    acts = CURVED[name], QUADRATURES[name]
    by_form, by_nodes = (FullyConnected((act, A.relu), 2, 1.1, bias) for act in acts)
    for form, nodes in ((by_form.nngp, by_nodes.nngp), (by_form.ntk, by_nodes.ntk)):
        size = (form(x).diagonal()[:, None] * form(y).diagonal()).sqrt()
        assert ((nodes(x, y) - form(x, y)) / size).abs().max() < 1e-11


def test_single_precision_keeps_its_digits_too() -> None:
    g = torch.Generator().manual_seed(5)
    x = torch.randn(4, 3, generator=g, dtype=F64).float()
    x = torch.cat([x, -x, x + 1e-4, 1.01 * x])
    for act in (A.erf, A.sine(1), A.tanh):
        net = FullyConnected((act, A.relu), 2, 1.1, 0.0)
        computed, true = net.ntk(x).double(), net.ntk(x.double())
        size = (true.diagonal()[:, None] * true.diagonal()).sqrt()
        assert ((computed - true) / size).abs().max() < 64 * torch.finfo(torch.float32).eps


def test_a_kink_of_ones_own_keeps_its_digits_where_points_meet() -> None:
    """The slope jumps, so E[phi' phi'] falls as the angle does, at a rate that distances show."""
    expression = sp.Piecewise((z, z > 0), (0, True)) + sp.tanh(z)
    act = activation("bent", expression, kinks=(0,))
    net, (x, aside) = FullyConnected(act, 1, 1.2, 0.1), torch.eye(2, 4, dtype=F64)[:, None]
    assert Layer(act).angular
    assert not Layer(A.elu).angular
    torch.testing.assert_close(net.ntk(x, x.clone()), net.ntk(x), rtol=1e-14, atol=0)
    gaps = torch.tensor([1e-6, 1e-7, 1e-8], dtype=F64)
    rates = (net.ntk(x) - net.ntk(x, x + gaps[:, None] * aside))[0] / gaps
    torch.testing.assert_close(rates[1:], rates[0].expand(2), rtol=1e-5, atol=0)


def at_origin_and_beside(
    act: Activation, sigma: list[float], bias: list[float], V: float
) -> Tensor:
    """Two layers, the second a ReLU, at x = 0 and where the first variance is V: by one-point averages."""
    with mp.workdps(30):
        phi, slope = act.phi.mpmath, compile_mpmath((z,), act.derivative())
        cut = {"kinks": [0]} if act.kinks else {}
        value, rise = (quadrature.moment(f, mpf(V), **cut) for f in (phi, slope))
        F, at_zero = act.F.evaluate(25, V=V), phi(mpf(0))
        w, b = (mpf(sigma[1]) ** 2, mpf(bias[1]) ** 2)
        xx, xy, yy = (w * k + b for k in (at_zero**2, at_zero * value, F))
        scale = mp.sqrt(xx * yy)
        angle = mp.acos(xy / scale)
        kernel = scale * (mp.sin(angle) + (mp.pi - angle) * mp.cos(angle)) / (2 * mp.pi)
        first = mpf(bias[0]) ** 2  # the tangent kernel of the first layer at x.y = 0
        below = w * slope(mpf(0)) * rise * first + xy
        nngp = mpf(sigma[2]) ** 2 * kernel + mpf(bias[2]) ** 2
        ntk = nngp + mpf(sigma[2]) ** 2 * (mp.pi - angle) / (2 * mp.pi) * below
        return torch.tensor([float(nngp), float(ntk)], dtype=F64)


ODD = [0.0, 0.1, 0.0], [0.0, 0.3, 0.1]
MOVED = *ODD, [0.0, 0.0, 0.1], [0.0, 0.0, 0.0]  # phi(0) alone gives the second layer a variance
ROWS = [(act, bias) for act in (A.tanh, A.elu, A.silu) for bias in ODD]
ROWS += [(act, bias) for act in (A.sigmoid, A.softplus) for bias in MOVED]


@pytest.mark.parametrize(("act", "bias"), ROWS, ids=lambda part: getattr(part, "name", None))
def test_a_row_of_zeros_before_a_kink(act: Activation, bias: list[float]) -> None:
    """Its variance has no angle to any other; quadratures come one by one there."""
    x = torch.tensor([[0.0, 0.0], [1e-4, 2e-4]], dtype=F64)
    sigma = [1.3, 0.9, 1.6]
    net = FullyConnected([act, A.relu], 2, sigma_w=sigma, sigma_b=bias)
    true = at_origin_and_beside(act, sigma, bias, 1.3**2 * 5e-8 / 2)
    for kernel, expected in zip((net.nngp, net.ntk), true, strict=True):
        gram, whole = kernel(x, x), kernel(x)
        torch.testing.assert_close(gram, gram.mT, rtol=1e-12, atol=0)
        torch.testing.assert_close(gram, whole, rtol=1e-12, atol=0)
        torch.testing.assert_close(gram[0, 1], expected, rtol=1e-11, atol=0)


@pytest.mark.parametrize("act", [A.tanh, A.elu, A.softplus], ids=lambda a: a.name)
@pytest.mark.parametrize("scale", [1e4, 1e6, 1e9])
def test_variances_whose_features_the_nodes_cannot_see_are_refused(act, scale) -> None:
    x = scale * torch.tensor([[1.0, 0.2], [0.3, -0.9]], dtype=F64)
    with pytest.raises(InputError, match="too large for averages of phi by quadrature"):
        FullyConnected(act, 1, sigma_w=1.0, sigma_b=0.0).ntk(x)
