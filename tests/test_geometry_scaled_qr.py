"""What counts as noise in a QR of rows of any scale."""

import pytest
import torch

from numeric.geometry.scaled_qr import graded

TOLERANCE = 1e-12


@pytest.mark.parametrize("angle", [1e-1, 1e-3, 1e-5])
@pytest.mark.parametrize(("share", "rank"), [(0.3, 2), (30.0, 3)])
def test_errors_of_rows_that_are_nearly_parallel_grow_in_the_rows_they_span(
    angle: float, share: float, rank: int
) -> None:
    """A third row is the difference of two at a small angle, over that angle, plus a part outside their span.

    Each row is accurate to the tolerance, and so their difference over the angle to sqrt(2) tolerance/angle
    only: a part of 0.3 times that is noise, though it may be 1e5 times the tolerance; one of 30 times is a
    third direction. Neither is close to the bound, so rounding cannot decide.
    """
    rng = torch.Generator().manual_seed(0)
    one, two, three, _ = torch.linalg.qr(
        torch.randn(4, 4, generator=rng, dtype=torch.float64)
    ).Q.unbind()
    rows = torch.stack([one, one + angle * two, two + share * TOLERANCE / angle * three])
    logs = torch.tensor([0.0, -1.0, -20.0], dtype=torch.float64)  # pivots in this order
    assert graded(logs, rows, TOLERANCE).rank == rank
