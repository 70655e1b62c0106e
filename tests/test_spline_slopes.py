"""Slopes of random-feature kernels: as torch finds them, in floats as in thirty digits."""

import itertools

import numpy as np
import pytest
import torch
from mpmath import mpf

from analytic.catalogue import catalogue
from analytic.expressions.arguments import InputError
from analytic.splines import INITIALISATIONS, Initialisation

VALUES = {"A": 1.25, "B": 0.9, "sa": 1.2, "sb": 0.7}
PLACES = (0.0, 0.3, -0.3, 0.72, -0.72, 0.9, -0.9, 0.9 + 1e-9, 2.5, -2.5, 1e3, -1e3)
LAWS = tuple(INITIALISATIONS)


def values(law: str) -> dict[str, float]:
    return {symbol.name: VALUES[symbol.name] for symbol in INITIALISATIONS[law].parameters}


@pytest.mark.parametrize("law", LAWS)
def test_floats_follow_thirty_digits(law: str) -> None:
    formula = catalogue[f"spline.{law}.slope"]
    pairs = list(itertools.product(PLACES, repeat=2))
    x, y = np.array(pairs).T
    arrays = formula.numpy(x=x, y=y, **values(law))
    tensors = formula.torch(x=torch.from_numpy(x), y=torch.from_numpy(y), **values(law)).numpy()
    for k, (p, q) in enumerate(pairs):
        true = formula.mpmath(x=mpf(p), y=mpf(q), **{n: mpf(v) for n, v in values(law).items()})
        # Knots left of both and right of both pull opposite ways: what is lost is a part of either.
        scale = abs(true) + (1 + abs(q))
        for value in (arrays[k], tensors[k]):
            assert abs(mpf(float(value)) - true) <= 1e-14 * scale


@pytest.mark.parametrize("law", LAWS)
def test_torch_finds_the_same_slope(law: str) -> None:
    x = torch.tensor([0.31, -0.3, 0.85, 2.5, -1.7], dtype=torch.float64, requires_grad=True)
    y = torch.tensor([0.3, 0.3, 1.4, -2.0, -1.2], dtype=torch.float64)
    catalogue[f"spline.{law}.rf"].torch(x=x, y=y, **values(law)).sum().backward()
    slope = catalogue[f"spline.{law}.slope"].torch(x=x.detach(), y=y, **values(law))
    assert torch.allclose(x.grad, slope, rtol=1e-12, atol=1e-14)


def test_a_law_of_ones_own_says_that_it_has_none() -> None:
    law = INITIALISATIONS["signs"]
    own = Initialisation(
        **{**{f: getattr(law, f) for f in law.__dataclass_fields__}, "kernel_slope": None}
    )
    with pytest.raises(InputError, match="differentiate"):
        _ = own.slope
