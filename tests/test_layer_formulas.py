"""Pools, norms, attention, masks and sums of branches against their definitions, typed anew.

Their finite twins are tried too, at a finite width, where each definition is exact: on channels whose
empirical covariance is the given one, queries that are orthonormal, and all masks there are.
"""

import math
from itertools import product

import pytest
import torch
from torch import Tensor

from analytic.activations import relu
from numeric.infinite import (
    NTK,
    AveragePool,
    Dense,
    Dropout,
    GlobalPool,
    GroupPool,
    LayerNorm,
    Network,
    Residual,
    SelfAttention,
)
from numeric.infinite.composition.covariance import Covariance
from numeric.infinite.composition.finite import Draw
from numeric.infinite.composition.signal import Scales, Signal
from numeric.infinite.groups import Action, p4, symmetric

SCALES = Scales(1.3, 0.7, NTK())
EXACT = {"rtol": 1e-12, "atol": 1e-12}  # entries are of order one, and sums of a few of them


def normal(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def inner(seed: int, orbit: int = 1, n: int = 2, m: int = 3, p: int = 4) -> Tensor:
    """Covariances of signals at all pairs of positions, (orbit, n, p, m, p)."""
    u, v = normal(n, p, 5, seed=seed), normal(orbit, m, p, 5, seed=seed + 1)
    return torch.einsum("npc,gmqc->gnpmq", u, v) / 5


def draw(width: int) -> Draw:
    return Draw(width, SCALES, torch.Generator().manual_seed(0), torch.float64)


def window_mean(space: tuple[int, ...], size: int) -> Tensor:
    """The matrix from positions to the means over windows of them, side by side."""
    grid = list(product(*map(range, space)))
    windows = list(product(*(range(length // size) for length in space)))
    rows = [
        [float(all(a // size == b for a, b in zip(at, window, strict=True))) for at in grid]
        for window in windows
    ]
    return torch.tensor(rows, dtype=torch.float64) / size ** len(space)


POOLS = {  # layer, positions, group, the same as a matrix on positions
    "windows of a line": (AveragePool(2), (4,), None, window_mean((4,), 2)),
    "windows of an image": (AveragePool(2), (4, 2), None, window_mean((4, 2), 2)),
    "windows of a lifted image": (AveragePool(2), (4, 4), p4, window_mean((4, 4), 2)),
    "all positions": (GlobalPool(), (2, 2), None, window_mean((2, 2), 2)),
    "a table": (GroupPool(), (6,), Action(symmetric(3)), window_mean((6,), 6)),
    "a lifted image": (GroupPool(), (2, 2), p4, window_mean((2, 2), 2)),
}


@pytest.mark.parametrize("name", POOLS)
def test_a_pool_is_a_mean_over_pairs_of_positions(name: str) -> None:
    layer, space, over, mean = POOLS[name]
    orbit, p = (4 if over is p4 else 1), math.prod(space)
    signal = Signal(space, None, over=over)
    k, theta = inner(0, orbit, p=p), inner(2, orbit, p=p)
    shaped = [part.reshape(orbit, 2, *space, 3, *space) for part in (k, theta)]
    after = layer.advance(Covariance(*shaped, signal, True), None, None, SCALES)
    for ours, part in ((after.k, k), (after.theta, theta)):
        expected = torch.einsum("ap,gnpmq,bq->gnamb", mean, part, mean)
        whole = expected.mean(0, keepdim=True) if layer.after(signal).over is None else expected
        torch.testing.assert_close(ours.flatten(), whole.flatten(), **EXACT)
    axes = (orbit,) if over is p4 else ()
    h = normal(2, 3, *axes, *space, seed=4)
    pooled = h.reshape(2, 3, *axes, p) @ mean.T
    if over is p4 and layer.after(signal).over is None:
        pooled = pooled.mean(2)
    twin = layer.finite(signal, 3, 3, draw(3))(h)
    torch.testing.assert_close(twin.flatten(), pooled.flatten(), **EXACT)


def channels(k: Tensor, count: int, seed: int) -> Tensor:
    """Channels (count, positions) of mean 0 whose empirical covariance is k exactly."""
    size = len(k)
    start = torch.cat([torch.ones(count, 1, dtype=k.dtype), normal(count, size, seed=seed)], 1)
    basis = torch.linalg.qr(start).Q[:, 1:]
    return math.sqrt(count) * basis @ torch.linalg.cholesky(k).T


def test_a_norm_divides_by_standard_deviations() -> None:
    """Of two signals on two positions; epsilon is large, so that it cannot be left out."""
    layer, signal = LayerNorm(0.5), Signal((2,), None, centred=True)
    h = channels(inner(0, 1, 1, 1).reshape(4, 4) @ inner(0, 1, 1, 1).reshape(4, 4).T, 12, seed=3)
    x, y = h[:, :2].T, h[:, 2:].T  # (positions, channels)
    k, theta = x @ y.T / 12, inner(4, 1, 1, 1, 2).reshape(2, 2)
    spread = [torch.sqrt((part**2).mean(1) + 0.5) for part in (x, y)]
    sizes = spread[0][:, None] * spread[1]
    values = [1 / part[None] for part in spread]
    for pairs in (True, False):
        cut = (
            (lambda t: t.reshape(1, 1, 2, 1, 2))
            if pairs
            else (lambda t: t.diagonal()[None, :, None, None])
        )
        state = Covariance(cut(k).clone(), cut(theta).clone(), signal, pairs)
        after = layer.advance(state, *values, SCALES)
        torch.testing.assert_close(after.k, cut(k / sizes), **EXACT)
        torch.testing.assert_close(after.theta, cut(theta / sizes), **EXACT)
    for part, value in ((x, values[0]), (y, values[1])):
        own = Covariance((part @ part.T / 12).reshape(1, 1, 2, 1, 2), None, signal, True, own=True)
        torch.testing.assert_close(layer.observe(own, True, SCALES), value, **EXACT)
    twin = layer.finite(signal, 12, 12, draw(12))
    one, other = (twin(part.T[None])[0] for part in (x, y))
    torch.testing.assert_close(one.T @ other / 12, k / sizes, **EXACT)

    def traces(copies: int) -> Tensor:
        """Mean over channels of products of derivatives, at pairs of positions."""
        parts = []
        for part in (x, y):
            wide = part.T.repeat(copies, 1)[None]
            jacobian = torch.autograd.functional.jacobian(twin, wide)[0, :, :, 0]
            parts.append(jacobian.diagonal(dim1=1, dim2=3))  # (channels, channels, positions)
        return torch.einsum("abp,abq->pq", *parts) / (12 * copies)

    # With each channel twice the covariance is the same, and what 1/width leaves is half as much.
    torch.testing.assert_close(2 * traces(2) - traces(1), 1 / sizes, **EXACT)


def softmax(row: list[float]) -> list[float]:
    total = sum(map(math.exp, row))
    return [math.exp(entry) / total for entry in row]


def test_attention_averages_values_by_the_softmax_of_covariances() -> None:
    """Two signals of four channels on a grid of 2 x 2; each entry is typed as a sum over positions."""
    layer, signal = SelfAttention(1.5), Signal((2, 2), 4)
    x, y, theta = normal(4, 4, seed=0), normal(4, 4, seed=1), inner(2, 1, 1, 1).reshape(4, 4)
    attention = [
        torch.tensor(
            [
                softmax([1.5**2 * (h[:, p] @ h[:, q]).item() / 4 for q in range(4)])
                for p in range(4)
            ],
            dtype=torch.float64,
        )
        for h in (x, y)
    ]
    k = x.T @ y / 4

    def mean(part: Tensor) -> Tensor:
        left, right = attention
        entries = [
            sum(
                (left[p, a] * part[a, b] * right[q, b]).item()
                for a, b in product(range(4), range(4))
            )
            for p, q in product(range(4), range(4))
        ]
        return torch.tensor(entries, dtype=torch.float64).reshape(4, 4)

    expected = 1.3**2 * mean(k) + 0.7**2
    grid = (1, 1, 2, 2, 1, 2, 2)
    state = Covariance(k.reshape(grid), theta.reshape(grid), signal, True)
    owns = [Covariance((h.T @ h / 4).reshape(grid), None, signal, True, own=True) for h in (x, y)]
    values = [layer.observe(own, True, SCALES) for own in owns]
    after = layer.advance(state, *values, SCALES)
    torch.testing.assert_close(after.k.reshape(4, 4), expected, **EXACT)
    tangent = expected + 1.3**2 * mean(theta)
    torch.testing.assert_close(after.theta.reshape(4, 4), tangent, **EXACT)
    alone = layer.advance(owns[0], values[0], values[0], SCALES).k.reshape(4, 4)
    left = attention[0]
    torch.testing.assert_close(alone, 1.3**2 * left @ (x.T @ x / 4) @ left.T + 0.7**2, **EXACT)
    # With orthonormal queries the logits of the finite layer are those of the limit, and the derivatives by
    # its values, in which it is linear, make up the covariance.
    twin = layer.finite(signal, 4, 1, draw(8))
    with torch.no_grad():
        twin.query.copy_(math.sqrt(8) * torch.linalg.qr(normal(8, 4, seed=5)).Q)

    def derivatives(h: Tensor) -> Tensor:  # (positions, weights and bias)
        outputs = twin(h.reshape(1, 4, 2, 2)).flatten()
        rows = [
            torch.autograd.grad(out, list(twin.value.parameters()), retain_graph=True)
            for out in outputs
        ]
        return torch.stack([torch.cat([part.flatten() for part in row]) for row in rows])

    torch.testing.assert_close(derivatives(x) @ derivatives(y).T, expected, **EXACT)


def test_masks_are_averages_over_all_of_them() -> None:
    """Two channels on two positions have 16 masks; pairs of signals have independent ones."""
    rate, layer = 0.3, Dropout(0.3)
    x, y = normal(2, 2, seed=0), normal(2, 2, seed=1)  # (channels, positions)
    masks = torch.tensor(list(product((0.0, 1.0), repeat=4)), dtype=torch.float64).reshape(16, 2, 2)
    kept = masks.sum((1, 2))
    chance = (1 - rate) ** kept * rate ** (4 - kept)
    one, other = (masks * h / (1 - rate) for h in (x, y))
    same = torch.einsum("s,scp,scq->pq", chance, one, one) / 2
    apart = torch.einsum("s,t,scp,tcq->pq", chance, chance, one, one) / 2
    crossed = torch.einsum("s,t,scp,tcq->pq", chance, chance, one, other) / 2
    signal = Signal((2,), 2)

    def after(k: Tensor, pairs: bool, **kind: bool) -> Tensor:
        k = k.reshape(1, 1, 2, 1, 2) if pairs else k.diagonal().clone()[None, :, None, None]
        state = Covariance(k.clone(), None, signal, pairs, **kind)
        return layer.advance(state, None, None, SCALES).k.flatten()

    for pairs in (True, False):
        cases = [
            (same, after(x.T @ x / 2, pairs, own=True, same=True)),
            (apart, after(x.T @ x / 2, pairs, own=True)),
            (crossed, after(x.T @ y / 2, pairs)),
        ]
        for expected, ours in cases:
            entries = expected.flatten() if pairs else expected.diagonal()
            torch.testing.assert_close(ours, entries, **EXACT)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        values = layer.finite(signal, 2, 2, draw(2))(torch.ones(10**5, dtype=torch.float64))
    left = (values != 0).double()
    torch.testing.assert_close(values, left / (1 - rate), rtol=1e-15, atol=0)
    assert abs(left.mean().item() - (1 - rate)) < 4 * math.sqrt(rate * (1 - rate) / len(left))


def arc_cosine(kxx: Tensor, k: Tensor, kyy: Tensor) -> tuple[Tensor, Tensor]:
    """E[relu relu] and E[relu' relu'] as a textbook prints them."""
    scale = torch.sqrt(kxx * kyy)
    angle = torch.acos(k / scale)
    kernel = scale / (2 * math.pi) * (angle.sin() + (math.pi - angle) * angle.cos())
    return kernel, (math.pi - angle) / (2 * math.pi)


def test_masks_raise_variances_before_the_next_activation() -> None:
    """A network of two, layer by layer; two passes have masks of their own, also at x = y."""
    x, w, b, rate = normal(3, 4, seed=0), 1.3, 0.2, 0.3
    layers = [Dense(), relu, Dropout(rate), Dense(), relu, Dense()]
    net = Network(layers, w, b)
    k = w**2 * x @ x.T / 4 + b**2
    V = k.diagonal()
    rows, columns = V[:, None], V[None, :]
    off = ~torch.eye(3, dtype=torch.bool)
    # the angle of a point with itself is 0, where acos of a rounded 1 would not be
    kernel, slope = arc_cosine(rows, torch.where(off, k, 0.0), columns)
    kernel, slope = torch.where(off, kernel, rows / 2), torch.where(off, slope, 0.5)
    theta = w**2 * kernel + b**2 + w**2 * slope * k
    k, V = w**2 * kernel + b**2, w**2 * V / 2 / (1 - rate) + b**2
    kernel, slope = arc_cosine(V[:, None], k, V[None, :])
    nngp = w**2 * kernel + b**2
    torch.testing.assert_close(net.nngp(x, x), nngp, **EXACT)
    torch.testing.assert_close(net.ntk(x, x), nngp + w**2 * slope * theta, **EXACT)
    torch.testing.assert_close(net.nngp(x), nngp, **EXACT)


def test_a_sum_of_branches_adds_kernels() -> None:
    """The signal itself, and a layer of it; then ReLU of the sum."""
    x, y, w, b = normal(3, 4, seed=0), normal(2, 4, seed=1), 1.3, 0.2
    branches = Residual([], [relu, Dense(sigma_w=0.9)])
    net = Network([Dense(), branches, relu, Dense()], w, b)
    k = w**2 * x @ y.T / 4 + b**2
    V = [w**2 * (part**2).sum(1) / 4 + b**2 for part in (x, y)]
    kernel, slope = arc_cosine(V[0][:, None], k, V[1])
    own = 0.9**2 * kernel + b**2
    k, theta = k + own, k + own + 0.9**2 * slope * k
    V = [part + 0.9**2 * part / 2 + b**2 for part in V]
    kernel, slope = arc_cosine(V[0][:, None], k, V[1])
    nngp = w**2 * kernel + b**2
    torch.testing.assert_close(net.nngp(x, y), nngp, **EXACT)
    torch.testing.assert_close(net.ntk(x, y), nngp + w**2 * slope * theta, **EXACT)
    h, twin = normal(5, 6, seed=2), branches.finite(Signal((), None, centred=True), 6, 6, draw(6))
    weights, biases = twin.parameters()
    linear = 0.9 / math.sqrt(6) * h.clamp_min(0) @ weights.T + 0.7 * biases
    torch.testing.assert_close(twin(h), h + linear, **EXACT)
