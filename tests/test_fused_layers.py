"""Layers fused for tiles: the numbers of the plain closed forms, in whatever memory they are given."""

import math
from functools import partial

import pytest
import sympy as sp
import torch
from torch import Tensor

from analytic import activations as A
from analytic.activations.gram_tiles import Tile
from analytic.activations.gram_tiles import det as DET
from analytic.expressions import symbols
from numeric.infinite.fused_layers import allocate, layer, source, translate
from numeric.infinite.layers import Layer
from numeric.kernels.scratch_memory import USUAL, NoScratch, Scratch

F64, S = torch.float64, symbols.kxy
CLOSED = {
    "absolute": A.absolute, "affine": A.affine(A.erf, 2, 1), "cosine": A.cosine(1), "erf": A.erf,
    "exponential": A.exponential("1/2"), "gabor": A.gabor, "gaussian": A.gaussian, "gelu": A.gelu,
    "hermite": A.hermite(3), "leaky": A.leaky_relu("1/5"), "line": A.monomial(1), "cube": A.monomial(3),
    "shifted relu": A.affine(A.relu, 2, "1/2"),
    "polynomial": A.polynomial([1, 2, "1/2"]), "rbf": A.rbf(1), "relu": A.relu,
    "relu^2": A.relu_power(2), "sign": A.sign, "sine": A.sine(2), "snake": A.snake(1), "step": A.step,
}  # fmt: skip
SCALE, BIAS, WEIGHTS, BIASES = 1.7, 0.3, 0.9, 0.2


class Poisoned(Scratch):
    """What is free holds NaN, so that nothing can be read that was not written."""

    def keep(self, *tiles: Tensor | None) -> None:
        super().keep(*tiles)
        for tile in self._free:
            tile.fill_(math.nan)


def tile_inputs(dtype: torch.dtype) -> list[Tensor]:
    """kxx, kxy, kyy, det and theta of a tile whose points are far from collinear."""
    chance = torch.Generator().manual_seed(0)
    kxx, kyy = (torch.rand(shape, generator=chance, dtype=F64) + 0.5 for shape in ((7, 1), (1, 5)))
    kxy = (kxx * kyy).sqrt() * (1.6 * torch.rand(7, 5, generator=chance, dtype=F64) - 0.8)
    theta = torch.randn(7, 5, generator=chance, dtype=F64)
    return [part.to(dtype) for part in (kxx, kxy, kyy, kxx * kyy - kxy**2, theta)]


@pytest.mark.parametrize("dtype", [F64, torch.float32])
@pytest.mark.parametrize("plain", [True, False])
@pytest.mark.parametrize("name", CLOSED)
def test_a_fused_layer_is_the_plain_one(name: str, plain: bool, dtype: torch.dtype) -> None:
    closed, parts = Layer(CLOSED[name]), tile_inputs(dtype)
    before = [part.clone() for part in parts]
    kxx, kxy, kyy, det, theta = parts
    tangent = CLOSED[name].slope is not None
    weights, biases = (SCALE, BIAS) if plain else (WEIGHTS, BIASES)
    pairs = closed.elements(kxx, kyy, kxy, det, tangent)
    expected = [SCALE * pairs.kernel + BIAS]
    if tangent:
        expected.append(weights * pairs.kernel + biases + SCALE * pairs.slope * theta)
    bare = kxy.new_tensor(BIAS), kxy.new_tensor(biases)
    memory = Poisoned(kxy.numel() + 3, kxy)
    for free in (memory, NoScratch()):
        free.begin(*kxy.shape)
        free.keep()
        computed = closed.step(tangent, plain)(*parts, SCALE, bare[0], weights, bare[1], free)
        for one, true in zip(computed, expected, strict=True):
            off = (one.expand_as(true) - true).abs().max()
            assert off < 20 * torch.finfo(dtype).eps * true.abs().max()
    assert all(torch.equal(part, old) for part, old in zip(parts, before, strict=True))


def test_conditions_may_be_shared_and_sums_may_lack_a_side() -> None:
    """What closed forms of one's own may be like."""
    parts = tile_inputs(F64)
    _, kxy, kyy, det, theta = parts
    cases = partial(sp.Piecewise, evaluate=False)
    one, two = (
        cases((f, symbols.kxy > 0), (g, True)) for f, g in ((S, sp.sinh(S)), (1, sp.cosh(S)))
    )
    scale, zero = 1.5, torch.zeros((), dtype=F64)
    sided = Tile(S + symbols.kyy + DET, one)
    for tile, kernel, slope in (
        (
            Tile(one, two),
            torch.where(kxy > 0, kxy, kxy.sinh()),
            torch.where(kxy > 0, 1, kxy.cosh()),
        ),
        (sided, kxy + kyy + det, torch.where(kxy > 0, kxy, kxy.sinh())),
    ):
        memory = Poisoned(kxy.numel(), kxy)
        memory.begin(*kxy.shape)
        memory.keep()
        k, tangent = layer(tile, True, True)(*parts, scale, zero, scale, zero, memory)
        torch.testing.assert_close(k, scale * kernel, rtol=1e-14, atol=1e-14)
        torch.testing.assert_close(
            tangent, scale * (kernel + slope * theta), rtol=1e-14, atol=1e-14
        )


def test_results_take_the_place_of_operands_that_are_not_needed_again() -> None:
    program = translate([sp.exp(S) + sp.sin(S) * DET, sp.exp(S) * symbols.kxx])
    places = allocate(program)
    assert len({place.variable for place in places.values()}) == 2
    first = [step for step in program.instructions if places[step.result].out.startswith("free")]
    assert len(first) == 2
    text = source(program, places)
    assert text.count("exp(kxy, out=free[") == 1
    assert text.count("out=scratch") == len(program.instructions) - 2


def test_memory_is_taken_again_unless_it_is_kept() -> None:
    memory = Scratch(12, torch.zeros(1, dtype=torch.float32))
    memory.begin(3, 4)
    tiles = [memory[k] for k in range(USUAL + 2)]  # more than there are at first
    assert all(tile.shape == (3, 4) and tile.dtype == torch.float32 for tile in tiles)
    for k, tile in enumerate(tiles):
        tile.fill_(k)
    assert [tile.unique().tolist() for tile in tiles] == [[k] for k in range(USUAL + 2)]
    memory.keep(tiles[0], None, tiles[2])
    assert memory[0] is tiles[1]
    assert memory[1] is tiles[3]
    memory.begin(2, 5)
    again = [memory[k] for k in range(USUAL + 2)]
    assert all(tile.is_contiguous() and tile.shape == (2, 5) for tile in again)
    assert len({tile.data_ptr() for tile in again}) == USUAL + 2
