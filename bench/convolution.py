"""Kernels of convolutional networks: p4 against the whole tensor, and a deep one against its floor.

The whole tensor has a covariance for each pair of rotations and pixels. The floor of a deep network are the
passes that its recursion cannot avoid, on memory that stays in the cache: the products of the inputs, for
each filter of three taps its additions to K and Theta, which the first layer has alike, for each ReLU one
arc sine, one root and the products around them, and the sums of pools.
"""

from __future__ import annotations

import math
import subprocess
import sys
import time
from collections.abc import Iterator

import torch
from torch import Tensor

from analytic.activations import relu
from bench.clock import interleaved
from bench.gram import GIGABYTE, peak
from numeric.infinite import (
    AveragePool,
    Convolution,
    Dense,
    GlobalPool,
    GroupConvolution,
    GroupPool,
    Lift,
    Network,
    Window,
    groups,
)

WEIGHT, BIAS, IMAGES, SIDE, MANY = 1.5, 0.1, 8, 16, 200
BLOCK = 2**15  # numbers that stay in the cache
BAR = 60  # seconds for so many images


def p4_network() -> Network:
    window = Window(3)
    layers = [Lift(groups.p4, window), relu, GroupConvolution(window), relu, GroupPool()]
    return Network(layers, WEIGHT, BIAS, progress=False)


def deep_network() -> Network:
    layers = [
        *(Convolution(3), relu) * 2, AveragePool(2), Convolution(3), relu, AveragePool(2),
        *(Convolution(3), relu) * 2, GlobalPool(), Dense(),
    ]  # fmt: skip
    return Network(layers, WEIGHT, BIAS, progress=False)


def images(n: int, side: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(n, 3, side, side, generator=torch.Generator().manual_seed(0), dtype=dtype)


def run() -> Iterator[str]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    results = {}
    for name in ("ours", "tensor"):
        command = [sys.executable, "-m", "bench.convolution", name]
        printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        results[name] = [float(word) for word in printed.split()]
    (seconds, bytes_, value), (rival, rival_bytes, other) = results["ours"], results["tensor"]
    yield (
        f"p4 NTK, {IMAGES} images of {SIDE} x {SIDE}, two layers: {seconds:.2f} s of CPU and "
        f"{bytes_ / GIGABYTE:.2f} GB; the whole tensor takes {rival / seconds:.0f} times the time (20 are "
        f"asked for) and {rival_bytes / bytes_:.0f} times the memory (10), and values agree to "
        f"{abs(value / other - 1):.0e}"
    )
    net = p4_network()
    for dtype in (torch.float64, torch.float32):
        x = images(MANY, SIDE, dtype)
        net.ntk(x[:4])
        torch.set_num_threads(2)
        wall, cpu = time.perf_counter(), time.process_time()
        net.ntk(x)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        torch.set_num_threads(1)
        yield (
            f"p4 NTK of {MANY} images in {dtype}, run once: {wall:.0f} s on two threads ({BAR} s are asked "
            f"for), {cpu:.0f} s of CPU"
        )
    net, x = deep_network(), images(4, 32)
    ours, least = interleaved((lambda: net.ntk(x), floor), time.process_time, 5)
    a_pair = ours / 10  # six pairs, and four images with themselves
    yield (
        f"NTK of 5 convolutions and 2 poolings on 32 x 32: {1e3 * a_pair:.0f} ms of CPU a pair, "
        f"{a_pair / least:.2f} times the floor of {1e3 * least:.0f} ms (2 are asked for)"
    )
    torch.set_num_threads(threads)


def floor() -> None:
    """The passes for one pair of 32 x 32 images."""
    rows, columns = BLOCK // 256, 256
    a, b, c = (torch.full((rows, columns), 0.3, dtype=torch.float64) for _ in range(3))
    row, column = a[:, :1].clone(), a[:1].clone()
    u, v = torch.full((rows, 3), 0.3, dtype=a.dtype), torch.full((3, columns), 0.3, dtype=a.dtype)
    quarter = torch.tensor(0.25, dtype=a.dtype)
    for _ in range(32**4 // BLOCK):
        torch.mm(u, v, out=c)
    for side, convolutions, pooled in ((32, 2, True), (16, 1, True), (8, 2, False)):
        blocks = max(1, side**4 // BLOCK)
        for layer in range(convolutions):
            first = side == 32 and layer == 0
            for _ in range(blocks):
                for _ in range(1 if first else 2):  # K and Theta
                    for _ in range(4):  # two axes, two additions each
                        torch.add(a, b, out=c)
                    torch.add(quarter, c, alpha=0.1, out=c)
                if first:
                    b.copy_(c)  # Theta
                torch.mul(a, row, out=c).mul_(column)  # the correlation
                torch.asin(c, out=c)
                torch.add(quarter, c, alpha=0.1, out=c)
                b.mul_(c)
                a.mul_(c)
                torch.mul(row, column, out=c).addcmul_(a, a, value=-1)  # the determinant
                torch.rsqrt(c, out=b)
                a.addcmul_(b, c, value=0.1)
                a.fill_(0.3)
                b.fill_(0.3)
        for _ in range(2 * blocks if pooled else 0):
            torch.add(
                a, b, out=c
            )  # sums of two along four axes: 1/2 + 1/4 + 1/8 + 1/16 of the numbers


def whole_tensor(x: Tensor) -> Tensor:
    """The recursion on all pairs of rotations and pixels, as the layers' formulas are printed."""
    n, c, side, _ = x.shape
    turned = [_patches(x, r) for r in range(4)]  # (n, pixels, 9 c)
    signal = torch.stack(turned, 1).flatten(1, 2)  # (n, 4 pixels, 9 c)
    flat = signal.flatten(0, 1)
    k = WEIGHT**2 / (9 * c) * (flat @ flat.T).reshape(n, 4 * side**2, n, 4 * side**2) + BIAS**2
    theta = k.clone()
    k, theta = _rectified(k, theta)
    k, mean = _group_mean(k, side), _group_mean(theta, side)
    k = WEIGHT**2 * k + BIAS**2
    theta = k + WEIGHT**2 * mean
    k, theta = _rectified(k, theta)
    return theta.mean((1, 3))


def _patches(x: Tensor, r: int) -> Tensor:
    """f(t + R_r y) for the pixels t and the taps y: (n, pixels, 9 c)."""
    taps = torch.arange(9).reshape(3, 3)
    order = torch.rot90(taps, -r, (0, 1)).flatten()
    unfolded = torch.nn.functional.unfold(x, 3, padding=1).unflatten(1, (-1, 9))
    return unfolded[:, :, order].flatten(1, 2).mT


def _rectified(k: Tensor, theta: Tensor) -> tuple[Tensor, Tensor]:
    n = len(k)
    own = torch.stack([k[i, :, i].diagonal() for i in range(n)])
    scale = torch.sqrt(own[:, :, None, None] * own)
    angle = torch.acos((k / scale).clamp(-1, 1))
    kernel = scale / (2 * math.pi) * (angle.sin() + (math.pi - angle) * angle.cos())
    return kernel, (math.pi - angle) / (2 * math.pi) * theta


def _group_mean(k: Tensor, side: int) -> Tensor:
    """(1/36) sum over rotations s and taps y of K_{(r + s, t + R_r y), (r' + s, t' + R_r' y)}."""
    n = len(k)
    k = k.reshape(n, 4, side, side, n, 4, side, side)
    padded = torch.nn.functional.pad(k, (1, 1, 1, 1))
    padded = torch.nn.functional.pad(padded.movedim((2, 3), (-2, -1)), (1, 1, 1, 1)).movedim(
        (-2, -1), (2, 3)
    )
    out = torch.zeros_like(k)
    for r in range(4):
        for other in range(4):
            for a in (-1, 0, 1):
                for b in (-1, 0, 1):
                    (i, j), (u, v) = (_turned(a, b, s) for s in (r, other))
                    part = padded[:, :, 1 + i : 1 + i + side, 1 + j : 1 + j + side]
                    part = part[..., 1 + u : 1 + u + side, 1 + v : 1 + v + side]
                    for s in range(4):
                        out[:, r, :, :, :, other] += part[:, (r + s) % 4, :, :, :, (other + s) % 4]
    return (out / 36).reshape(n, 4 * side**2, n, 4 * side**2)


def _turned(a: int, b: int, r: int) -> tuple[int, int]:
    for _ in range(r):
        a, b = -b, a
    return a, b


def measure(name: str) -> str:
    """CPU seconds, peak bytes above what the process held before, and one entry, in a process of its own."""
    torch.set_num_threads(1)
    net = p4_network()
    kernel = net.ntk if name == "ours" else whole_tensor
    kernel(images(1, 8))
    before, x = peak(), images(IMAGES, SIDE)
    start = time.process_time()
    gram = kernel(x)
    return f"{time.process_time() - start} {peak() - before} {gram[0, 1].item()!r}"


if __name__ == "__main__":
    print(measure(sys.argv[1]))
