"""Two-point averages on whole matrices meet closed forms, mpmath and other rules; bounds hold."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from mpmath import mp, mpf
from torch import Tensor
from torch.nn.functional import elu, hardtanh, silu
from torch.special import ndtr

from analytic.activations import erf, gelu, relu
from analytic.activations.activation import Activation
from analytic.expressions import quadrature
from analytic.expressions.arguments import InputError
from numeric.infinite.mehler import Expansion, Mehler, expand, pairs

Function = Callable[[Tensor], Tensor]


def floats(*values: object) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def normal(z: Tensor) -> Tensor:
    return torch.exp(-z * z / 2) / (2 * torch.pi) ** 0.5


def sech2(z: Tensor) -> Tensor:
    return 4 * torch.exp(-2 * z.abs()) / (1 + torch.exp(-2 * z.abs())) ** 2


APART = [1e-9, 1e-5, 3e-3, 0.1, 0.7]
RHO = floats(1.0, -1.0, 0.0, *(sign * (1 - a) for a in APART for sign in (1, -1)))
VARIANCES = floats(1e-4, 0.5, 6.0, 100.0)
SMOOTH = {
    "tanh": torch.tanh, "tanh'": sech2, "sigmoid": torch.sigmoid,
    "sigmoid'": lambda z: sech2(z / 2) / 4, "softplus": lambda z: torch.logaddexp(z, 0 * z),
    "silu": silu, "silu'": lambda z: torch.sigmoid(z) + z * sech2(z / 2) / 4,
}  # fmt: skip
CLOSED: dict[str, tuple[Function, tuple[float, ...], Activation, str]] = {
    "erf": (lambda z: torch.erf(z / 2**0.5), (), erf, "kernel"),
    "erf'": (lambda z: 2 * normal(z), (), erf, "slope"),
    "gelu": (lambda z: z * ndtr(z), (), gelu, "kernel"),
    "gelu'": (lambda z: ndtr(z) + z * normal(z), (), gelu, "slope"),
    "relu": (torch.relu, (0.0,), relu, "kernel"),
    "step": (lambda z: (z > 0).to(z), (0.0,), relu, "slope"),
}


def every(mehler: Mehler, V: Tensor, rho: Tensor = RHO) -> tuple[Expansion, Expansion, Tensor]:
    """A tile of all overlaps and variances down, and all variances across."""
    cols = mehler.rows(V)
    kxy = (rho[:, None, None] * (V[:, None] * V).sqrt()).flatten(0, 1)
    return cols[torch.arange(len(V)).repeat(len(rho))], cols, kxy


def table(rule: Callable[..., float], rows: Expansion, cols: Expansion, kxy: Tensor) -> Tensor:
    gram = (k.expand_as(kxy).flatten().tolist() for k in (rows.V[:, None], kxy, cols.V))
    return floats(*map(rule, *gram)).reshape(kxy.shape)


def worst(value: Tensor, truth: Tensor, square: Tensor) -> float:
    """The largest error in units of sqrt(E[phi(u)^2] E[phi(v)^2])."""
    size = (square[:, None] * square).sqrt().repeat(len(value) // len(square), 1)
    return ((value - truth).abs() / size).max().item()


@pytest.mark.parametrize("name", CLOSED)
def test_closed_forms_are_met_at_every_variance_and_overlap(name: str) -> None:
    phi, kinks, act, part = CLOSED[name]
    rows, cols, kxy = every(mehler := Mehler(phi, kinks), VARIANCES)
    truth = getattr(act, part).torch(rows.V[:, None], kxy, cols.V)
    square = (act.F if part == "kernel" else act.G).torch(VARIANCES)
    assert worst(mehler.pairs(rows, cols, kxy), truth, square) < 1e-12
    for order in (16, 128, None):  # the series alone may be far off, and then says so
        value, bound = pairs(rows, cols, kxy, order)
        assert ((value - truth).abs() <= bound).all()


def test_the_bound_is_not_idle() -> None:
    """At rho = 1 and one variance the terms left out add up to the whole tail."""
    rows = expand(torch.relu, VARIANCES, (0.0,), most=64)
    value, bound = pairs(rows, rows, (VARIANCES[:, None] * VARIANCES).sqrt())
    missing = (VARIANCES[:, None] * VARIANCES).sqrt() / 2 - value
    torch.testing.assert_close(missing, bound, rtol=1e-6, atol=0)


def plane(phi: Function, kxx: float, kxy: float, kyy: float) -> float:
    """The trapezoidal rule for u and for v given u, in steps that resolve tanh at variance 100."""
    t = torch.arange(-340, 341).double() / 40
    weight, rho = normal(t) / 40, max(-1.0, min(1.0, kxy / (kxx * kyy) ** 0.5))
    v = kyy**0.5 * (rho * t[:, None] + (1 - rho**2) ** 0.5 * t)
    return ((weight * phi(kxx**0.5 * t)) @ (phi(v) @ weight)).item()


@pytest.mark.parametrize("name", SMOOTH)
def test_smooth_functions_agree_with_a_plain_rule(name: str) -> None:
    phi, V, mehler = SMOOTH[name], floats(1e-4, 100.0), Mehler(SMOOTH[name])
    tile = every(mehler, V, floats(1.0, -1.0, 1 - 1e-9, 1e-6 - 1, 0.997, -0.7))
    truth = table(lambda *gram: plane(phi, *gram), *tile)
    square = floats(*(plane(phi, v, v, v) for v in V.tolist()))
    assert worst(mehler.pairs(*tile), truth, square) < 1e-12


@pytest.mark.parametrize("phi", [elu, lambda z: torch.exp(z.clamp(max=0))])
def test_elu_agrees_with_polar_coordinates(phi: Function) -> None:
    mehler = Mehler(phi, (0.0,))
    rows, cols, kxy = every(mehler, floats(1.0, 100.0), floats(1.0, -1.0, 1 - 1e-9, -0.999, 0.9))
    square = quadrature.moment_array(torch, lambda z: phi(z) ** 2, cols.V).value
    gram = (k.expand_as(kxy).flatten() for k in (rows.V[:, None], kxy, cols.V))
    truth = quadrature.pair_array(torch, phi, phi, *gram).value.reshape(kxy.shape)
    assert worst(mehler.pairs(rows, cols, kxy), truth, square) < 1e-12


@pytest.mark.parametrize(("phi", "exact", "kinks"), [
    (sech2, lambda z: mp.sech(z) ** 2, ()), (elu, lambda z: max(z, mp.expm1(min(z, 0))), (0.0,)),
])  # fmt: skip
def test_twenty_digits_agree(phi: Function, exact: Function, kinks: tuple[float, ...]) -> None:
    kxx, kxy, kyy = gram = (2.0, -1.5811, 1.25)  # rho is 1 - 2e-5 but for its sign
    mehler = Mehler(phi, kinks)
    value = mehler.pairs(mehler.rows(floats(kxx)), mehler.rows(floats(kyy)), floats([kxy])).item()
    with mp.workdps(20):
        truth = float(quadrature.pair(exact, exact, *map(mpf, gram), kinks))
        x, y = (quadrature.moment(lambda z: exact(z) ** 2, mpf(V), 0, kinks) for V in (kxx, kyy))
    assert abs(value - truth) < 1e-12 * float(x * y) ** 0.5


def clipped(kxx: float, kxy: float, kyy: float) -> float:
    """E[clip(u) clip(v)], with v averaged in closed form given u, and u between its kinks."""
    slope, s = kxy / kxx, (kyy - kxy**2 / kxx) ** 0.5
    x, weight = map(torch.from_numpy, np.polynomial.legendre.leggauss(40))
    layers = [b / slope + k * s / slope for b in (-1, 1) for k in range(-9, 10)]
    grid = (kxx**0.5 * torch.linspace(-9, 9, 37)).tolist()
    edges = floats(-1, 1, *layers, *grid).clamp(-9 * kxx**0.5, 9 * kxx**0.5).sort().values
    half = edges.diff()[:, None] / 2
    u = edges[:-1, None] + half * (1 + x)
    low, high = (-1 - slope * u) / s, (1 - slope * u) / s
    inside = slope * u * (ndtr(high) - ndtr(low)) + s * (normal(low) - normal(high))
    mean = ndtr(-high) - ndtr(low) + inside
    return (half * weight * u.clamp(-1, 1) * mean * normal(u / kxx**0.5) / kxx**0.5).sum().item()


def test_kinks_may_lie_anywhere() -> None:
    mehler, V = Mehler(hardtanh, (-1, 1)), floats(0.1, 1.0, 30.0)
    tile = every(mehler, V, floats(0.2, -0.9, 0.99, -0.999, 1 - 1e-5))
    beyond = 2 * ndtr(-1 / V.sqrt())
    square = beyond + V * (1 - beyond) - 2 * V.sqrt() * normal(1 / V.sqrt())
    assert worst(mehler.pairs(*tile), table(clipped, *tile), square) < 1e-12


def test_a_gauss_hermite_product_rule_is_off_by_percents_where_this_is_not() -> None:
    """E[tanh' tanh'] at variance 4 and overlap 0.9: 25 nodes lie too far apart for tanh'."""
    x, weight = map(torch.from_numpy, np.polynomial.hermite_e.hermegauss(25))
    weight = weight / weight.sum()
    v = 2 * (0.9 * x[:, None] + 0.19**0.5 * x)
    coarse = ((weight * sech2(2 * x)) @ (sech2(v) @ weight)).item()
    truth = plane(sech2, 4.0, 3.6, 4.0)
    mehler = Mehler(sech2)
    value = mehler.pairs(rows := mehler.rows(floats(4.0)), rows, floats([3.6])).item()
    assert abs(coarse / truth - 1) > 0.029
    assert abs(value / truth - 1) < 1e-12


@pytest.mark.parametrize("V", [1.0, 100.0, 1e4])
def test_parseval_holds_to_rounding(V: float) -> None:
    """E[sigmoid^2] from mpmath: the coefficients never exceed it, the tail makes it up."""
    rows = expand(torch.sigmoid, floats(V), most=512)
    with mp.workdps(20):
        square = float(quadrature.moment(lambda z: (1 + mp.exp(-z)) ** -2, mpf(V)))
    sum_of_squares = (rows.coefficients**2).sum().item()
    assert sum_of_squares <= square * (1 + 7e-15)
    assert 0 <= sum_of_squares + rows.tail.item() ** 2 - square <= 2e-14 * square


@pytest.mark.parametrize(
    "phi_and_kinks", [(torch.tanh, ()), (elu, (0.0,)), (hardtanh, (-1.0, 1.0))]
)
@pytest.mark.parametrize("rho", [0.0, -0.7, 0.999])
def test_gradients_are_finite_differences(phi_and_kinks: tuple, rho: float) -> None:
    mehler, weight = Mehler(*phi_and_kinks, order=256), floats([1.0, -0.3])

    def total(kxx: Tensor, kxy: Tensor, kyy: Tensor) -> Tensor:
        return (weight * mehler.pairs(mehler.rows(kxx), mehler.rows(kyy), kxy)).sum()

    x, y = floats(1.3), floats(0.7, 2.0)
    at = [x, rho * (x[:, None] * y).sqrt(), y]
    slopes = torch.autograd.grad(total(*(k.requires_grad_() for k in at)), at)
    way = [floats(0.3), floats([1.0, 0.2]), floats(-0.4, 0.7)]
    step = 1e-4 * min(1, 10 * (1 - abs(rho)))
    ahead = [
        [a.detach() + c * step * w for a, w in zip(at, way, strict=True)] for c in (2, 1, -1, -2)
    ]
    up, near, back, down = (total(*point).item() for point in ahead)
    along = sum((a * w).sum() for a, w in zip(slopes, way, strict=True))
    assert abs((8 * (near - back) - (up - down)) / (12 * step) - along) < 1e-14 / step


def test_a_point_with_itself_has_the_gradient_of_its_variance() -> None:
    """Through |rho| = 1, where the direct route is taken: d E[relu^2] / d scale = V / 2."""
    scale, V, mehler = floats(1.0).requires_grad_(), floats(0.5, 3.0), Mehler(torch.relu, (0.0,))
    rows = mehler.rows(scale * V)
    mehler.pairs(rows, rows, scale * torch.diag(V)).diagonal().sum().backward()
    torch.testing.assert_close(scale.grad, V.sum()[None] / 2, rtol=1e-12, atol=0)


def test_a_variance_may_vanish() -> None:
    mehler, V = Mehler(torch.sigmoid), floats(0.0, 2.0).requires_grad_()
    K = mehler.pairs(mehler.rows(V), mehler.rows(V), floats([0.0, 0.0], [0.0, 1.0]))
    torch.testing.assert_close(K[0], floats(0.25, 0.25), rtol=1e-14, atol=0)  # E[sigmoid] = 1/2
    assert torch.autograd.grad(K.sum(), V)[0].isfinite().all()


def test_tiles_and_single_precision_give_the_same_matrix() -> None:
    V = torch.linspace(0.1, 9.0, 40).double()
    rho = torch.linspace(-1, 1, 1600).double().reshape(40, 40).fill_diagonal_(1)
    kxy = (V[:, None] * V).sqrt() * rho
    mehler, part, close = Mehler(silu), slice(10, 30), {"rtol": 0, "atol": 1e-12}
    whole = mehler.pairs(rows := mehler.rows(V), rows, kxy)
    tile = mehler.pairs(rows[part], rows[:7], kxy[part, :7])
    torch.testing.assert_close(tile, whole[part, :7], **close)
    few = 0.2 * kxy + 0.8 * kxy.diagonal().diag()  # only the diagonal needs the last order
    torch.testing.assert_close(mehler.pairs(rows, rows, few), pairs(rows, rows, few)[0], **close)
    single = mehler.pairs(*[mehler.rows(V.float())] * 2, kxy.float())
    assert single.dtype == torch.float32
    assert worst(single.double(), whole, whole.diagonal()) < 4e-6


def test_what_cannot_be_done_is_refused() -> None:
    one, steep = floats(1.0), lambda z: torch.exp(z * z / 4)
    for phi, word in (
        (lambda z: (z - 0.3).abs(), "kinks"),
        (steep, "grows"),
        (torch.log, "finite"),
    ):
        with pytest.raises(InputError, match=word):
            Mehler(phi).rows(one)
    for V in (floats([1.0]), floats(-1.0), floats(float("nan")), torch.tensor([1])):
        with pytest.raises(InputError, match="Variances"):
            Mehler(silu).rows(V)
    rows = Mehler(silu).rows(one)
    for kxy, word in ((floats([1.1]), "larger"), (floats([float("nan")]), "NaN"), (one, "shape")):
        with pytest.raises(InputError, match=word):
            Mehler(silu).pairs(rows, rows, kxy)
    for bad in ((1.0,), (silu, (), 0.0), (silu, (), 1e-12, 0)):
        with pytest.raises(InputError, match="function of tensors"):
            Mehler(*bad)
    wave = Mehler(lambda z: torch.sin(3 * z), order=32)
    far = wave.rows(floats(25.0))
    with pytest.raises(ArithmeticError, match=r"found to .* kxx, kxy, kyy = 25, 24.9, 25"):
        wave.pairs(far, far, floats([24.9]))


BUMP = {
    "at 0": lambda z: torch.exp(-((1e7 * z) ** 2)),
    "at 1": lambda z: torch.exp(-((1e5 * (z - 1)) ** 2)),
}


@pytest.mark.parametrize("where", BUMP)
@pytest.mark.parametrize("level", [0.0, 1.0])
def test_what_lies_between_all_nodes_is_refused(where: str, level: float) -> None:
    """Two rules that both see a constant agree, and the bump would have counted as nothing."""
    with pytest.raises(InputError, match=r"smooth on the scale 1|less steep"):
        Mehler(lambda z: level + BUMP[where](z)).rows(floats(0.0, 1.0))


def test_a_step_that_is_steeper_than_the_nodes_is_refused() -> None:
    """E[tanh(1e5 z)^2] is less than 1 by 8e-6, and all nodes see 1."""
    with pytest.raises(InputError, match="less steep"):
        Mehler(lambda z: torch.tanh(1e5 * z)).rows(floats(1.0))


def test_constants_and_what_vanishes_within_reach_are_as_they_are() -> None:
    for phi, kinks, size in (
        (torch.ones_like, (), 1.0),
        (torch.zeros_like, (), 0.0),
        (lambda z: torch.relu(z - 100), (100.0,), 0.0),
        (lambda z: torch.sigmoid(1e-20 * z), (), 0.5),
    ):
        rows = Mehler(phi, kinks).rows(floats(0.0, 1.0))
        torch.testing.assert_close(rows.size, floats(size, size), rtol=1e-12, atol=1e-14)
