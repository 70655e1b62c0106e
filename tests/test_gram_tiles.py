"""Gram matrices by tiles: averages with a determinant as a further argument, and how tiles fit together."""

import math
from collections.abc import Iterator
from typing import Any

import pytest
import sympy as sp
import torch
from mpmath import mp, mpf
from torch import Tensor

from analytic import activations as A
from analytic.activations.gram_tiles import ARGS, tile
from analytic.expressions.arguments import InputError
from analytic.expressions.backends import compile_together
from numeric.infinite import FullyConnected
from numeric.infinite.gram import GRAPH, TILE

pytestmark = pytest.mark.usefixtures("one_thread")

F64, EPS = torch.float64, torch.finfo(torch.float64).eps
TILED = {
    "relu": A.relu, "leaky": A.leaky_relu("1/5"), "absolute": A.absolute, "line": A.monomial(1),
    "two slopes": A.two_slope(-2, "1/2"), "relu^2": A.relu_power(2), "relu^5/2": A.relu_power("5/2"),
    "sign": A.sign, "step": A.step, "erf": A.erf, "gelu": A.gelu, "gaussian": A.gaussian,
    "gabor": A.gabor, "sine": A.sine(1), "cosine": A.cosine(2), "snake": A.snake(1),
    "hermite": A.hermite(3), "wide gelu": A.gelu.scaled(3), "wide relu": A.relu.scaled("1/2"),
    "wide relu^2": A.relu_power(2).scaled("1/2"), "affine": A.affine(A.leaky_relu(), 3),
    "pi": A.relu_power("5/2").scaled(sp.sqrt(sp.pi)),
}  # fmt: skip
LINEAR = [name for name, act in TILED.items() if tile(act).after]
VARIANCES = [(1.0, 1.0), (0.3, 2.5), (4.0, 1e-3)]
ANGLES = [1.2, 0.3, 1e-3, 1e-7, 1e-12, 3.0, math.pi - 1e-5]


def normal(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=F64)


def pairs() -> Iterator[tuple[mpf, mpf, mpf, mpf]]:
    """kxx, kxy, kyy and det at 50 digits."""
    for a, b in VARIANCES:
        for angle in map(mpf, ANGLES):
            yield mpf(a), mp.sqrt(mpf(a) * b) * mp.cos(angle), mpf(b), a * b * mp.sin(angle) ** 2


def floats(rows: list[tuple[mpf, ...]]) -> list[Tensor]:
    return list(torch.tensor([[float(v) for v in row] for row in rows], dtype=F64).T)


@pytest.mark.parametrize("name", TILED)
def test_tiles_are_the_textbook_forms_even_where_kxy_rounds_the_angle_away(name: str) -> None:
    act, averages = TILED[name], tile(TILED[name])
    with mp.workdps(50):
        rows = list(pairs())
        parts = (averages.kernel, act.kernel, act.F), (averages.slope, act.slope, act.G)
        for part, textbook, square in parts:
            if part is None:
                assert textbook is None
                continue
            values = compile_together(ARGS, [part])(*floats(rows))[0]
            values = torch.as_tensor(values, dtype=F64).expand(len(rows)).tolist()
            for (kxx, kxy, kyy, _), value in zip(rows, values, strict=True):
                true = mp.re(textbook.mpmath(kxx, kxy, kyy))
                size = mp.sqrt(square.mpmath(kxx) * square.mpmath(kyy))
                assert abs(value - true) < 1e-14 * size, (kxx, kxy, kyy)


@pytest.mark.parametrize("name", LINEAR)
def test_piecewise_linear_functions_give_the_gap_and_the_determinant_of_the_next_layer(
    name: str,
) -> None:
    act = TILED[name]
    with mp.workdps(50):
        rows = list(pairs())
        values = torch.stack(compile_together(ARGS, tile(act).after)(*floats(rows)), 1).tolist()
        for (kxx, kxy, kyy, det), (gap, after) in zip(rows, values, strict=True):
            k = mp.re(act.kernel.mpmath(kxx, kxy, kyy))
            scale = mp.sqrt(act.F.mpmath(kxx) * act.F.mpmath(kyy))
            angle, root = mp.sqrt(det / (kxx * kyy)), mp.sqrt(scale**2 - k**2)
            assert abs(gap - (scale - k)) < 4 * EPS * (angle * scale + (scale - k))
            assert abs(mp.sqrt(after) - root) < 8 * EPS * scale


def test_kinds_of_tiles() -> None:
    assert tile(A.tanh) is tile(A.elu) is None
    for act in (A.relu, A.absolute, A.step, A.relu_power("5/2"), A.two_slope(1, 2)):
        assert tile(act).angular
        assert tile(act).needs_det
    for act in (A.erf, A.gelu, A.gaussian):
        assert tile(act).needs_det
        assert not tile(act).angular
    for act in (A.monomial(1), A.two_slope(3, 3), A.hermite(1)):
        assert not tile(act).needs_det
        assert tile(act).after is not None


NETS = {
    "relu": FullyConnected(A.relu, 3, 1.3, 0.2),
    "erf": FullyConnected(A.erf, 3, 1.3, 0.2),
    "mixed": FullyConnected((A.leaky_relu(), A.gelu, A.sine(1)), 3, 1.3, (0.0, 0.2, 0.1, 0.3)),
    "tanh": FullyConnected(A.tanh, 1, 1.3, 0.2),
}
ROUNDING = {name: 1e-13 if name == "tanh" else 4e-15 for name in NETS}
HEIGHT, WIDTH = TILE
SIZES = (1, 7, HEIGHT - 1, HEIGHT, HEIGHT + 1, 400, WIDTH, WIDTH + 1, WIDTH + HEIGHT + 1)


def cloud(n: int, d: int = 5) -> Tensor:
    """Points, of which the first and the middle one coincide."""
    x = normal(n, d, seed=n)
    x[n // 2] = x[0]
    return x


def off(one: Tensor, other: Tensor, size: Tensor) -> float:
    return ((one - other) / (size[:, None] * size).sqrt()).abs().max().item()


@pytest.mark.parametrize(
    ("name", "n"),
    [(name, n) for name in NETS for n in (SIZES if name != "tanh" else (1, HEIGHT + 1))],
)
def test_tiles_fit_together(name: str, n: int) -> None:
    net, x = NETS[name], cloud(n)
    picked = sorted({0, n // 2, n - 1, *(i for k in TILE for i in (k - 1, k) if i < n)})
    for call in (net.nngp, net.ntk):
        gram = call(x)
        size = gram.diagonal()
        assert gram.shape == (n, n)
        assert torch.equal(gram, gram.T)
        alone = torch.cat([torch.cat([call(x[[i]], x[[j]]) for j in picked], 1) for i in picked])
        assert off(gram[picked][:, picked], alone, size[picked]) < ROUNDING[name]
        assert off(call(x, x.clone()), gram, size) < ROUNDING[name]
        half = call(x[: n // 2 + 1], x)
        assert ((half - gram[: n // 2 + 1]) / size.max()).abs().max() < ROUNDING[name]
        assert torch.linalg.eigvalsh(gram).min() > -n * ROUNDING[name] * size.max()


@pytest.mark.parametrize("name", NETS)
def test_threads_order_rotation_and_layout_change_nothing(name: str) -> None:
    net, x = NETS[name], cloud(2 * HEIGHT + 40)
    gram, size = net.ntk(x), net.ntk(x).diagonal()
    torch.set_num_threads(2)
    for again, true in ((net.ntk(x), gram), (net.ntk(x, x.clone()), gram)):
        assert off(again, true, size) < ROUNDING[name]
    assert torch.get_num_threads() == 2
    torch.set_num_threads(1)
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))
    assert off(net.ntk(x[order]), gram[order][:, order], size[order]) < ROUNDING[name]
    turn = torch.linalg.qr(normal(5, 5, seed=1)).Q
    assert off(net.ntk(x @ turn), gram, size) < 8 * ROUNDING[name]
    assert off(net.ntk(x.T.contiguous().T.requires_grad_()), gram, size) < ROUNDING[name]
    single = net.ntk(x.float())
    assert single.dtype == torch.float32
    assert torch.equal(single, single.T)
    assert off(single.double(), gram, size) < 64 * torch.finfo(torch.float32).eps


GRADIENTS: dict[str, Any] = {
    "relu": A.relu, "erf": A.erf, "tanh": A.tanh, "sign": A.sign, "relu^5/2": A.relu_power("5/2"),
    "mixed": (A.relu, A.erf, A.gelu), "square first": (A.relu_power(2), A.leaky_relu()),
    "jump first": (A.step, A.sine(1)),
}  # fmt: skip


def slopes(act: Any, depth: int, scales: list[list[float]], x: Tensor, weights: Tensor) -> Tensor:
    """Five-point differences of sum(weights * nngp) by each scale: (2, depth + 1)."""

    def total(which: int, layer: int, move: float) -> float:
        at = [list(part) for part in scales]
        at[which][layer] += move
        return (weights * FullyConnected(act, depth, *at).nngp(x)).sum().item()

    def slope(which: int, layer: int, h: float = 1e-3) -> float:
        near, far = (total(which, layer, c * h) - total(which, layer, -c * h) for c in (1, 2))
        return (8 * near - far) / (12 * h)

    return torch.tensor([[slope(w, l) for l in range(depth + 1)] for w in (0, 1)], dtype=F64)


@pytest.mark.parametrize(
    ("name", "symmetric"), [(name, False) for name in GRADIENTS] + [("relu", True), ("tanh", True)]
)
def test_gradients_are_differences(name: str, symmetric: bool) -> None:
    """With rows that coincide, are opposite, collinear or close; the weights add up to 10^2."""
    act = GRADIENTS[name]
    depth = len(act) if isinstance(act, tuple) else 2
    scales = [[0.8 + 0.1 * l for l in range(depth + 1)], [0.6 - 0.1 * l for l in range(depth + 1)]]
    x = normal(4, 2, seed=3)
    x = torch.cat([x, x[:2], -x[:1], 2 * x[1:2], x[2:3] + 1e-9, x[3:] + 1e-5])
    weights = normal(10, 10, seed=4)
    weights = weights + weights.T if symmetric else weights
    gradient = torch.stack(FullyConnected(act, depth, *scales).nngp_gradient(x, weights))
    torch.testing.assert_close(
        gradient, slopes(act, depth, scales, x, weights), rtol=1e-8, atol=1e-8
    )


def test_gradients_of_more_than_one_block() -> None:
    n, scales = GRAPH + 60, [[1.1, 0.9], [0.2, 0.3]]
    x, weights = cloud(n, 3), normal(n, n, seed=2) / n
    gradient = torch.stack(FullyConnected(A.relu, 1, *scales).nngp_gradient(x, weights))
    torch.testing.assert_close(
        gradient, slopes(A.relu, 1, scales, x, weights), rtol=1e-9, atol=1e-9
    )


def test_no_bias_and_a_deep_collapse_have_finite_gradients() -> None:
    x, weights = cloud(6, 2), normal(8, 8, seed=5)
    x = torch.cat([x, -x[:1], torch.zeros(1, 2, dtype=F64)])
    for act in (A.relu, A.erf, A.relu_power(2), A.step, A.tanh):
        by_w, by_b = FullyConnected(act, 2, 0.9, 0.0).nngp_gradient(x, weights)
        assert by_w.isfinite().all()
        assert not by_b.any()  # K is even in each bias
    flat = FullyConnected(A.step, 2, 0.9, 0.0).nngp_gradient(x, weights)[0]
    assert flat[:2].abs().max() < 1e-12  # a step does not see the scale of its input
    for part in FullyConnected(A.relu, 25, 0.5, 1.0).nngp_gradient(x, weights):
        assert part.isfinite().all()


X, NAN = normal(4, 3, seed=1), torch.tensor([[math.nan, 0.0, 0.0]], dtype=F64)
BAD: dict[str, tuple[Any, ...]] = {
    "x has dimension 3 and y has 2": (X, X[:, :2]),
    "x is torch.int64: convert": (X.long(),),
    "x is torch.float16: convert": (X.half(),),
    "y is torch.float16: convert": (X, X.half()),
    "x is torch.float64 on cpu and y is torch.float32 on cpu: convert one": (X, X.float()),
    r"x must be points of shape \(n, d\), but shape \(3,\) was": (X[0],),
    r"x must be points .* but shape \(0, 3\) was": (X[:0],),
    "x must be an array of numbers": ("points",),
    "y must be an array of numbers": (X, [["a"]]),
    "1 of 5 points have NaN, infinite or too large": (torch.cat([X, NAN]),),
    "1 of 1 points have NaN": (X, NAN),
    "4 of 4 points .* too large": (1e200 * X,),
}


@pytest.mark.parametrize("message", BAD)
def test_bad_points_are_refused(message: str) -> None:
    for call in (NETS["erf"].nngp, NETS["erf"].ntk):
        with pytest.raises(InputError, match=message):
            call(*BAD[message])


@pytest.mark.parametrize("weights", [torch.ones(3, 4), torch.ones(4, 4), [[1.0] * 3] * 4, "ones"])
def test_bad_weights_are_refused(weights: Any) -> None:
    with pytest.raises(InputError, match="weights"):
        NETS["erf"].nngp_gradient(X, weights)
