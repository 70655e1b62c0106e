"""Gram matrices of infinite networks against the recursion as a plain loop of 50 digits."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import product

import pytest
import torch
from mpmath import mp, mpf
from torch import Tensor

from analytic import activations as A
from analytic.activations.activation import Activation
from analytic.expressions.arguments import InputError
from numeric.infinite import NTK, FullyConnected, Standard

pytestmark = pytest.mark.usefixtures("one_thread")

F64, EPS = torch.float64, torch.finfo(torch.float64).eps
Row = tuple[float, ...]
QUADRATURE = ("tanh", "sigmoid", "softplus", "silu")
CLOSED = {name: act for name, act in A.FURTHER.items() if name not in QUADRATURE} | {
    "erf": A.erf, "gaussian": A.gaussian, "gelu": A.gelu, "line": A.monomial(1), "square": A.monomial(2),
    "relu": A.relu, "relu^2": A.relu_power(2), "relu^5/2": A.relu_power("5/2"), "sine": A.sine(1),
    "cosine": A.cosine(1), "exponential": A.exponential("1/2"), "snake": A.snake(1),
    "wide relu^2": A.relu_power(2).scaled(3),
}  # fmt: skip
WILD = {"exponential", "hermite", "square", "relu^2", "relu^5/2", "wide relu^2"}  # powers of 1e12


def normal(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=F64)


def exact(net: FullyConnected, tangent: bool) -> Callable[[Row, Row], tuple[float, float]]:
    """Two points to the NNGP or NTK between them and to its natural size, sqrt(K_xx K_yy)."""
    w, b = ([mpf(s) for s in part] for part in (net.sigma_w, net.sigma_b))
    width = getattr(net.parametrisation, "width", None)
    ntk = [(p**2, q**2) for p, q in zip(w, b, strict=True)]

    def gram(x: Row, y: Row) -> Sequence[mpf]:
        inner = [mp.fsum(mpf(p) * mpf(q) for p, q in zip(*two)) for two in ((x, x), (x, y), (y, y))]
        return [w[0] ** 2 * xy / len(x) + b[0] ** 2 for xy in inner]

    @lru_cache
    def walk(x: Row, y: Row) -> mpf:
        standard = [(len(x) if l == 0 else width, int(b[l] > 0)) for l in range(len(w))]
        rates = ntk if width is None else standard
        kxx, kxy, kyy = gram(x, y)
        theta = rates[0][0] * (kxy - b[0] ** 2) / w[0] ** 2 + rates[0][1]
        for l, act in enumerate(net.activations):
            one = x == y  # a pair of one point, where textbook forms divide 0 by 0
            k = act.F.mpmath(kxx) if one else mp.re(act.kernel.mpmath(kxx, kxy, kyy))
            if tangent:
                slope = act.G.mpmath(kxx) if one else mp.re(act.slope.mpmath(kxx, kxy, kyy))
                theta = rates[l + 1][0] * k + rates[l + 1][1] + w[l + 1] ** 2 * slope * theta
            after = act.F.mpmath(kxx), k, act.F.mpmath(kyy)
            kxx, kxy, kyy = (w[l + 1] ** 2 * part + b[l + 1] ** 2 for part in after)
        return theta if tangent else kxy

    @mp.workdps(50)
    def truth(x: Row, y: Row) -> tuple[mpf, mpf]:
        return walk(x, y), mp.sqrt(walk(x, x) * walk(y, y))

    return truth


def misfits(net: FullyConnected, x: Tensor, y: Tensor, tolerance: float = 1e-12) -> list[str]:
    """Entries off by more than the tolerance, and by more than roundings of x itself do."""
    bad = []
    for tangent in (False, True)[: 1 + all(act.slope is not None for act in net.activations)]:
        truth, computed = exact(net, tangent), (net.ntk if tangent else net.nngp)(x, y).tolist()
        for p, row in zip(map(tuple, x.tolist()), computed, strict=True):
            for q, value in zip(map(tuple, y.tolist()), row, strict=True):
                (k, size), moved = truth(p, q), 0.0
                off = float(abs(value - k) / size) if size else abs(value)
                if tolerance < off < 1e-3 and p != q:
                    near = tuple(c * (1 + (-1) ** i * EPS) for i, c in enumerate(p))
                    moved = float(abs(truth(near, q)[0] - k) / size)
                if not off <= tolerance + 16 * moved:
                    bad.append(f"{'ntk' if tangent else 'nngp'}{p, q}: {value}, off by {off:.0e}")
    return bad


def delicate(d: int, scale: float = 1.0) -> tuple[Tensor, Tensor]:
    """A point, and beside it: itself, its opposite, collinear, nearby, nearly opposite, any."""
    x, aside, other = scale * normal(3, 1, d, seed=d)
    far = [-1.0, 3.0, -3.0, 1e-6, 1e6]
    near = [x + gap * aside for gap in (1e-9, 1e-7, 1e-4)]
    y = torch.cat([x, *(c * x for c in far), *near, 1e-7 * aside - x, 3 * x + 1e-8 * aside, other])
    return x, y


@pytest.mark.parametrize("name", CLOSED)
@pytest.mark.parametrize(
    ("d", "depth", "sigma_b", "kind"),
    [(1, 1, 0.0, NTK()), (1, 2, 0.3, Standard(64)), (2, 2, 0.0, NTK()), (2, 3, 0.3, NTK()),
     (5, 1, 0.3, Standard(3)), (5, 3, 0.0, Standard(64))],
)  # fmt: skip
def test_closed_forms_at_every_angle(
    name: str, d: int, depth: int, sigma_b: float, kind: NTK | Standard
) -> None:
    x, y = delicate(d)
    y = y[y.norm(dim=1) < 1e3] if name in WILD else y
    sigma_w = [0.9 + 0.1 * l for l in range(depth + 1)]
    net = FullyConnected(CLOSED[name], depth, sigma_w, sigma_b, kind)
    assert misfits(net, x, y) == []


@pytest.mark.parametrize("scale", [1e6, 1e-6])
@pytest.mark.parametrize("name", [name for name in CLOSED if name not in WILD])
def test_inputs_may_be_large_or_small(name: str, scale: float) -> None:
    """Past a layer that is curved and large, determinants are known from kxy only: one layer then."""
    x, y = delicate(2, scale)
    depth = 1 if name in ("gelu", "snake") else 2
    bias = 0.0 if name in ("sign", "step") else 0.1  # beside which small points would be one point
    assert misfits(FullyConnected(CLOSED[name], depth, 1.2, bias), x, y) == []


@pytest.mark.parametrize(
    "act", [A.erf, A.gelu, A.gaussian, A.sine(1), A.relu_power(2)], ids=lambda act: act.name
)
def test_a_scaled_function_is_the_function_of_scaled_inputs(act: Activation) -> None:
    """phi(c z) with weights and biases w, b of the first layer is phi(z) with c w, c b."""
    x, y = delicate(2)
    y = y[y.norm(dim=1) < 1e3]
    wide = FullyConnected(act.scaled(1024), 1, (1.1, 0.9), (0.2, 0.4))
    same = FullyConnected(act, 1, (1024 * 1.1, 0.9), (1024 * 0.2, 0.4))
    for one, other in ((wide.nngp, same.nngp), (wide.ntk, same.ntk)):
        size = (other(x).diagonal()[:, None] * other(y).diagonal()).sqrt()
        assert ((one(x, y) - other(x, y)) / size).abs().max() < 1e-12


def test_relu_diagonal_is_exact() -> None:
    """E[relu^2] = V/2 and E[relu'^2] = 1/2, so Theta = (depth + 1) (w^2/2)^depth w^2 |x|^2 / d."""
    x = torch.tensor([[3.0, -4.0, 12.0], [0.5, 0.0, 0.0]], dtype=F64)
    for depth in range(1, 11):
        net = FullyConnected(A.relu, depth, 1.5, 0.0)
        true = (depth + 1) * 1.125**depth * 2.25 / 3 * torch.tensor([169.0, 0.25], dtype=F64)
        for computed in (net.ntk(x).diagonal(), net.ntk(x, x.clone()).diagonal()):
            torch.testing.assert_close(computed, true, rtol=1e-15, atol=0)


@pytest.mark.parametrize("power", [1, "5/4", "3/2", 2, "5/2", 3])
@pytest.mark.parametrize("sigma_b", [0.0, 0.3])
def test_rectified_powers_are_finite_and_positive_where_points_meet(
    power: int | str, sigma_b: float
) -> None:
    x = normal(20, 3, seed=2)
    x = torch.cat([x, x, 2 * x[:5], -x[:5], x[:5] + 1e-8, 0 * x[:1]])
    net = FullyConnected(A.relu_power(power), 3, 0.9, sigma_b)
    for gram in (net.nngp(x), net.ntk(x), net.nngp(x, x.clone()), net.ntk(x, x.clone())):
        assert gram.isfinite().all()
        assert (gram >= 0).all()
        torch.testing.assert_close(gram[:20, :20], gram[20:40, 20:40], rtol=1e-13, atol=1e-15)
        torch.testing.assert_close(
            gram[:20, 20:40].diagonal(), gram.diagonal()[:20], rtol=1e-13, atol=0
        )


@pytest.mark.parametrize("depth", [20, 30])
@pytest.mark.parametrize("sigma", [(2**0.5, 0.0), (1.0, 0.1), (0.5, 1.0), (1.2, 1.0)])
@pytest.mark.parametrize("name", ["relu", "leaky_relu", "absolute", "erf", "sine", "gelu", "sign"])
def test_deep_networks(name: str, sigma: tuple[float, float], depth: int) -> None:
    """Where biases rule, all points become one: overlaps meet 1 to the last digit.

    No number of digits shows a sign network that opposite points stay so.
    """
    x = normal(2, 3, seed=1)
    y = torch.cat([x, x[:1] + 1e-6] if name == "sign" else [x, x[:1] + 1e-6, -x[:1]])
    assert misfits(FullyConnected(CLOSED[name], depth, *sigma), x, y) == []


MIXED = {
    "erf to relu": (A.erf, A.relu), "relu to erf": (A.relu, A.erf), "sine to gelu": (A.sine(1), A.gelu),
    "relu^2 to relu": (A.relu_power(2), A.relu), "step to relu^2": (A.step, A.relu_power(2)),
    "relu to sign": (A.relu, A.sign), "leaky to hermite": (A.leaky_relu(), A.hermite(3)),
    "three": (A.relu, A.gaussian, A.leaky_relu("1/5")), "rbf to relu": (A.FURTHER["rbf"], A.relu),
}  # fmt: skip


NEAR = (1, -1), (1, 2, 1.02), (0, 1e-9, 1e-5, 1e-2)  # sides, scales and distances aside


@pytest.mark.parametrize("name", MIXED)
@pytest.mark.parametrize("biases", [(0.0, 0.4, 0.1, 0.0), (0.3, 0.0, 0.2, 0.5), (0.0,) * 4])
def test_layers_may_differ(name: str, biases: tuple[float, ...]) -> None:
    """Past a curved layer too an angle is known better than kxy tells it."""
    depth = len(MIXED[name])
    net = FullyConnected(MIXED[name], depth, (1.1, 0.8, 1.3, 0.9)[: depth + 1], biases[: depth + 1])
    x, aside, other = normal(3, 1, 2, seed=7)
    near = [side * scale * x + gap * aside for side, scale, gap in product(*NEAR)]
    assert misfits(net, x, torch.cat([*near, x + 0.3 * aside, other]), 1e-14) == []


def test_angles_may_rise_again() -> None:
    """A bias draws two points together, and each sign takes the root of their distance."""
    net = FullyConnected(
        (A.relu, A.sign, A.sign, A.sign, A.sign), 5, 1.0, (0.0, 1e5, 0.0, 0.0, 0.0, 0.0)
    )
    assert misfits(net, normal(1, 2, seed=4), normal(3, 2, seed=5)) == []


@pytest.mark.parametrize("name", CLOSED)
def test_a_point_at_the_origin_has_the_value_of_phi_there(name: str) -> None:
    x = torch.cat([torch.zeros(2, 2, dtype=F64), normal(1, 2, seed=6)])
    net = FullyConnected(CLOSED[name], 2, 1.1, 0.0)
    assert misfits(net, x, x.clone()) == []
    both = net.nngp(x), net.nngp(x, x.clone())
    torch.testing.assert_close(*both, rtol=1e-12, atol=1e-12)
    for part in net.nngp_gradient(x, torch.ones(3, 3, dtype=F64)):
        assert part.isfinite().all()


@pytest.mark.parametrize("dtype", [F64, torch.float32])
@pytest.mark.parametrize("exponent", [-0.2, 0.2, 0.4])
@pytest.mark.parametrize("act", [A.relu, A.erf], ids=["relu", "erf"])
def test_floats_far_out_are_right_or_refused(
    act: Activation, exponent: float, dtype: torch.dtype
) -> None:
    """Inputs of size 2^410 in double or 2^51 in single precision, whose fourth power overflows."""
    x = normal(3, 2, seed=9).to(dtype) * 2.0 ** int(exponent * (1024 if dtype == F64 else 128))
    net = FullyConnected(act, 1, 1.0, 0.0)
    with suppress(InputError):
        computed, size = net.ntk(x, x.clone()).diagonal(), net.ntk(x).diagonal()
        torch.testing.assert_close(computed, size, rtol=16 * torch.finfo(dtype).eps, atol=0)


@pytest.mark.parametrize(
    ("act", "sigma_w"), [(A.relu, 0.5), (A.relu_power(3), 1.5)], ids=["low", "high"]
)
def test_variances_far_out_deep_inside_are_right_or_refused(
    act: Activation, sigma_w: float
) -> None:
    x, net = normal(3, 2, seed=9), FullyConnected(act, 30, sigma_w, 0.0)
    with suppress(InputError):
        computed, true = net.nngp(x.float()).double(), net.nngp(x)
        size = true.diagonal().sqrt()
        assert ((computed - true) / size.outer(size)).abs().max() < 1e-4
