"""QR with scales in logs, against mpmath with hundreds of digits and matrices built to be known."""

from __future__ import annotations

import math

import pytest
import torch
from mpmath import mp
from torch import Tensor

from numeric.geometry.scaled_qr import compressed, graded

NATS = 165 * math.log(10)  # 165 decades
WIDE = {"dtype": torch.float64}


def _normal(*shape: int, seed: int = 0) -> Tensor:
    """Of 24 bits, so that products of two are exact in float64."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).double()


def _spread(n: int, nats: float = NATS, seed: int = 0) -> Tensor:
    """Log scales over the whole range, in no order and exact to add."""
    order = torch.randperm(n, generator=torch.Generator().manual_seed(seed))
    return -(torch.linspace(0, nats, n, **WIDE)[order] * 1024).round() / 1024


def _exact(logs: Tensor, rows: Tensor) -> list:
    """Logs of all singular values, descending, from the Gram matrix with as many digits as that takes."""
    finite = logs[logs.isfinite()]
    digits = int(0.9 * (finite.max() - finite.min())) + 120
    with mp.workdps(digits):
        J = mp.matrix(rows.tolist())
        for i, log in enumerate(logs.tolist()):
            J[i, :] = J[i, :] * mp.exp(mp.mpf(log))
        gram = J.T * J if J.rows >= J.cols else J * J.T
        values = mp.eigsy(gram, eigvals_only=True)
        return sorted((mp.log(abs(v)) / 2 for v in values), reverse=True)


def _check(logs: Tensor, rows: Tensor, rank: int, tolerance: float = 1e-12) -> None:
    exact = _exact(logs, rows)
    result = graded(logs, rows)
    assert result.rank == rank
    volume = mp.mpf(result.log_volume.item()) - mp.fsum(exact[:rank])
    size = 1 + abs(logs[logs.isfinite()]).sum().item()
    assert abs(volume) < tolerance + 1e-15 * size
    off = result.log_singular - torch.tensor([float(v) for v in exact[:rank]], **WIDE)
    assert off.abs().max() < tolerance


@pytest.mark.parametrize("shape", [(6, 3), (12, 6), (25, 2), (9, 9), (30, 17), (5, 9)])
@pytest.mark.parametrize("nats", [0.0, 5.0, 40.0, NATS])
def test_random_rows_of_any_spread(shape: tuple[int, int], nats: float) -> None:
    _check(_spread(shape[0], nats, 3), _normal(*shape, seed=5), min(shape))


def test_scales_that_no_float_holds() -> None:
    _check(_spread(9, 5000.0), _normal(9, 4), 4)


CASES = {
    "two clusters": torch.cat([torch.zeros(10, **WIDE), torch.full((20,), -200.0, **WIDE)]),
    "three clusters": -9.0 * (torch.arange(30, **WIDE) // 7),
    "two to a nat": -0.5 * torch.arange(30, **WIDE),
    "one to two nats": -2.0 * torch.arange(30, **WIDE),
    "one alone": torch.cat([torch.zeros(1, **WIDE), torch.full((29,), -700.0, **WIDE)]),
}


@pytest.mark.parametrize("logs", CASES.values(), ids=CASES)
def test_gaps_and_crowds_of_scales(logs: Tensor) -> None:
    _check(logs, _normal(30, 12), 12)


def test_rows_that_repeat_or_lie_in_a_plane() -> None:
    rows = _normal(14, 5)
    rows[3], rows[9] = rows[7], 2 * rows[1]
    _check(_spread(14), rows, 5)
    rows = _normal(14, 5)
    rows[:6, 2:] = 0
    _check(torch.linspace(0, -NATS, 14, **WIDE), rows, 5)
    rows = _normal(14, 5)
    rows[:6, 2:] *= 2.0**-20
    _check(torch.linspace(0, -NATS, 14, **WIDE), rows, 5, 1e-9)  # rows are known to 1e-16 / 2^-20


def test_dead_rows_and_missing_directions_lower_the_rank() -> None:
    rows, logs = _normal(14, 5), _spread(14)
    logs[4:] = -math.inf
    _check(logs, rows, 4)
    flat = _normal(12, 3) @ _normal(3, 6, seed=1)  # in float64, so flat to 1e-16 only
    assert graded(torch.zeros(12, **WIDE), flat).rank == 3
    assert graded(_spread(12, 30.0), flat).rank == 3
    nothing = graded(torch.zeros(4, **WIDE), torch.zeros(4, 3, **WIDE))
    assert (nothing.rank, nothing.log_volume, len(nothing.log_singular)) == (0, 0, 0)


def test_ill_conditioned_rows_of_one_scale() -> None:
    powers = torch.linspace(0.125, 1, 12, **WIDE)[:, None] ** torch.arange(6)
    _check(torch.zeros(12, **WIDE), powers, 6, 1e-11)
    kahan = torch.eye(16, **WIDE) - 0.625 * torch.ones(16, 16, **WIDE).triu(1)
    kahan *= (0.75 ** torch.arange(16, **WIDE))[:, None]
    _check(torch.zeros(16, **WIDE), kahan, 16, 1e-11)


def test_length_of_rows_and_scale_are_one() -> None:
    rows, logs = _normal(9, 4), _spread(9, 60.0)
    moved = graded(torch.zeros(9, **WIDE), rows * logs.exp()[:, None])
    assert (moved.log_singular - graded(logs, rows).log_singular).abs().max() < 1e-13


def test_a_network_of_784_inputs_and_2000_units_over_165_decades() -> None:
    """A Kronecker product, whose singular values are products of those of its small factors."""
    few, many = _normal(40, 28), _normal(50, 28, seed=1)
    a, b = _spread(40, NATS / 2), _spread(50, NATS / 2, 1)
    rows, logs = torch.kron(few, many), (a[:, None] + b).flatten()
    left, right = _exact(a, few), _exact(b, many)
    exact = 28 * (mp.fsum(left) + mp.fsum(right))
    spectrum = sorted((float(u + v) for u in left for v in right), reverse=True)
    result = graded(logs, rows)
    assert result.rank == 784
    assert abs(mp.mpf(result.log_volume.item()) - exact) < 1e-9
    assert (result.log_singular - torch.tensor(spectrum, **WIDE)).abs().max() < 1e-11
    matrix = rows * logs.exp()[:, None]
    for wrong in (torch.linalg.svdvals(matrix), torch.geqrf(matrix)[0].diagonal().abs()):
        assert abs(wrong.log().sum().item() - float(exact)) > 100  # nats


def test_compressed_rows_keep_volume_and_spectrum() -> None:
    logs, rows = _spread(40), _normal(40, 6)
    once = compressed(logs[:25], rows[:25])
    assert once[1].shape == (6, 6)
    twice = compressed(torch.cat([once[0], logs[25:]]), torch.cat([once[1], rows[25:]]))
    off = graded(*twice).log_singular - graded(logs, rows).log_singular
    assert off.abs().max() < 1e-12
    few = compressed(logs[:3], rows[:3])  # fewer rows than directions
    off = graded(*few).log_singular - graded(logs[:3], rows[:3]).log_singular
    assert off.abs().max() < 1e-12


def test_scales_so_far_out_that_neighbours_round_to_one_have_a_spectrum() -> None:
    logs = torch.tensor([-1e19, -3e19, -3e19], **WIDE)
    result = graded(logs, torch.eye(3, **WIDE))
    assert result.log_singular.tolist() == logs.tolist()
