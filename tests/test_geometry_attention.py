"""Curvature of softmax attention in float64, compared with 60 digits."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pytest
import torch
import torch.nn.functional as F
from mpmath import mp
from torch import Tensor, nn

from analytic.expressions.arguments import InputError
from numeric import geometry
from numeric.models.repaired_operations import ReplacedOperations
from numeric.models.saturating_activations import SATURATION_SAFE

DOUBLE = {"dtype": torch.float64}
DIGITS = 60
PROMISE = 2e-15  # times the condition number: `ricci` promises about 1e-15, and processors round differently
SEEN = 4.0  # factor by which the estimated error may be too small


@dataclass(frozen=True, eq=False)
class Attention:
    """softmax(K x) V, at one point."""

    keys: Tensor  # (k, d)
    values: Tensor  # (k, p)
    x: Tensor  # (1, d)

    @classmethod
    def random(cls, seed: int, d: int = 3) -> Attention:
        """Keys of any size, so that up to all but one of the weights may vanish in float64."""
        rng = torch.Generator().manual_seed(seed)
        k, p = ((5, 5), (6, 8), (8, 8), (16, 8))[seed % 4]
        keys, values, x = (
            torch.randn(*shape, generator=rng, **DOUBLE) for shape in ((k, d), (k, p), (1, d))
        )
        return cls((1, 2, 3, 5)[seed // 4 % 4] * keys, values, x)

    def __call__(self, x: Tensor) -> Tensor:
        return torch.softmax(x @ self.keys.T, 1) @ self.values

    def by_hand(self, x: Tensor) -> Tensor:
        """As often written by hand; the slope of the largest weight is a difference of equal numbers."""
        z = x @ self.keys.T
        e = (z - z.detach().amax(1, keepdim=True)).exp()
        return e / e.sum(1, keepdim=True) @ self.values

    def exact(self) -> tuple[mp.mpf, mp.mpf, mp.mpf]:
        """R by the Gauss equation, the second fundamental form's squared norm, and the condition of J."""
        K, V = mp.matrix(self.keys.tolist()), mp.matrix(self.values.tolist())
        z = K * mp.matrix(self.x[0].tolist())
        weights = [mp.exp(value - max(z)) for value in z]
        weights = mp.diag([weight / mp.fsum(weights) for weight in weights])
        ones = mp.ones(K.rows, 1)
        centred = K - ones * (ones.T * weights * K)  # p_k' = p_k (K_k - mean).u
        J = V.T * weights * centred
        frame = mp.cholesky(J.T * J) ** -1  # rows
        along, T, d = centred * frame.T, J * frame.T, K.cols
        normal = {}
        for a in range(d):
            for b in range(d):
                square = mp.matrix([along[k, a] * along[k, b] for k in range(K.rows)])
                H = V.T * weights * (square - ones * (ones.T * weights * square))
                normal[a, b] = H - T * (T.T * H)
        size = mp.fsum(mp.norm(part) ** 2 for part in normal.values())
        trace = mp.matrix(V.cols, 1)
        for a in range(d):
            trace += normal[a, a]
        R = mp.norm(trace) ** 2 - size
        singular = mp.svd_r(J, compute_uv=False)
        return R, size, singular[0] / singular[d - 1]


def check_promise(seed: int) -> None:
    attention = Attention.random(seed)
    with mp.workdps(DIGITS):
        R, size, condition = attention.exact()
        ricci = geometry.ricci_scalar(attention, attention.x)
        error = abs(ricci.value.item() - R)
        assert error <= PROMISE * condition * size
        assert error <= SEEN * ricci.error.item()
        assert (
            ricci.error.item() <= 100 * PROMISE * condition * size
        )  # and is not a gross overestimate
        assert abs(ricci.condition.item() / condition - 1) < 1e-6


@pytest.mark.parametrize("seed", [28, 44, 61, 85, 92, 95])
def test_attention_loses_no_more_than_the_condition_number(seed: int) -> None:
    """Second derivatives in a frame are up to 1e9 times their normal part, and slopes of softmax vanish."""
    check_promise(seed)


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(100))
def test_a_hundred_attention_maps_lose_no_more_than_the_condition_number(seed: int) -> None:
    check_promise(seed)


@pytest.mark.parametrize("seed", [40, 44, 61, 92])
def test_errors_by_the_map_itself_are_seen(seed: int) -> None:
    """Derivatives cannot be more accurate than the map's own operations; `error` must reflect that."""
    attention = Attention.random(seed)
    with mp.workdps(DIGITS):
        R, size, condition = attention.exact()
        ricci = geometry.ricci_scalar(attention.by_hand, attention.x)
        assert abs(ricci.value.item() - R) <= SEEN * ricci.error.item()
        assert ricci.error.item() > 10 * PROMISE * condition * size


def test_layers_of_torch_have_the_curvature_of_what_they_compute() -> None:
    torch.manual_seed(0)
    own = nn.MultiheadAttention(4, 2, batch_first=True).double()
    own.in_proj_weight.data.mul_(8)  # weights close to 0 and 1

    def tokens(x: Tensor) -> Tensor:
        return x.view(len(x), 3, 2).sin().repeat(1, 1, 2)

    def by_module(x: Tensor) -> Tensor:
        return own(*[tokens(x)] * 3)[0]

    def fused(x: Tensor) -> Tensor:
        return own(*[tokens(x)] * 3, need_weights=False)[0]

    def written_out(x: Tensor) -> Tensor:
        q, k, v = (
            part.unflatten(2, (2, 2)).transpose(1, 2)
            for part in F.linear(tokens(x), own.in_proj_weight, own.in_proj_bias).chunk(3, 2)
        )
        mixed = torch.softmax(q @ k.mT / math.sqrt(2), -1) @ v
        return own.out_proj(mixed.transpose(1, 2).flatten(2))

    x = torch.randn(3, 6, generator=torch.Generator().manual_seed(1), **DOUBLE)
    ours = geometry.ricci_scalar(written_out, x)
    for layer in (by_module, fused):
        theirs = geometry.ricci_scalar(layer, x)
        assert ((ours.value - theirs.value).abs() <= ours.error + theirs.error).all()
        assert (theirs.error <= 5 * ours.error).all()  # with torch's own softmax, 80 times


SOFT = {
    "softmax": (lambda z: F.softmax(z, 1), lambda z: z.softmax(1)),
    "no axis": (lambda z: F.softmax(z), lambda z: torch.softmax(z, 1)),
    "softmin": (lambda z: F.softmin(z, dim=1), lambda z: torch.softmax(-z, 1)),
    "log_softmax": (lambda z: F.log_softmax(z, dim=1), lambda z: z.log_softmax(1)),
    "module": (nn.Softmax(1), lambda z: torch.special.softmax(z, 1)),
    "dtype": (lambda z: F.softmax(z, 1, dtype=torch.float64), lambda z: z.softmax(1)),
}


@pytest.mark.filterwarnings("ignore:Implicit dimension choice")
@pytest.mark.parametrize("name", SOFT)
def test_every_softmax_is_the_same(name: str) -> None:
    """Values agree with torch, and all spellings of softmax have the same curvature; -inf masks an entry."""
    one = SOFT[name][0]
    attention = Attention.random(12)

    def features(soft, x: Tensor) -> Tensor:
        z = soft(x @ attention.keys.T)
        return (z.exp() if name == "log_softmax" else z) @ attention.values

    first, second = (
        geometry.ricci_scalar(lambda x, soft=soft: features(soft, x), attention.x) for soft in SOFT[name]
    )  # fmt: skip
    assert (first.value - second.value).abs() <= first.error + second.error
    z = torch.tensor([[1.0, 40.0, 3.0, 2.0], [0.0, -math.inf, 0.0, 1.0]], **DOUBLE)
    z = -z if name == "softmin" else z
    with ReplacedOperations(SATURATION_SAFE):
        ours = one(z)
    torch.testing.assert_close(ours, one(z), rtol=1e-14, atol=1e-15)  # log(1 - tiny) is 0 to torch


def test_values_without_a_digit_are_refused() -> None:
    attention = Attention.random(28)
    with pytest.raises(InputError, match=r"no digit at 1 of 1 points.*torch\.softmax"):
        geometry.ricci_scalar(attention.by_hand, attention.x)
    assert geometry.ricci_scalar(attention, attention.x).value.isfinite()
