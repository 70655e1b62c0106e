"""Images between two and in the plane of three, mixed pixel by pixel (Zavatone-Veth et al., appendix G 2)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from numeric.inputs import InputError, number, require_instance, whole

__all__ = ["CORNERS", "Hull", "segment"]

# Where the three images of a hull are drawn: a triangle of side 1.
CORNERS = torch.tensor([[0, 0], [1, 0], [0.5, math.sqrt(0.75)]], dtype=torch.float64)


def segment(first: Tensor, second: Tensor, steps: int = 64) -> Tensor:
    """(1 - t) first + t second for t from 0 to 1, both included: two (c, h, w) -> (steps, c, h, w).

    Refused are images of two shapes, and fewer than two steps.

    >>> segment(torch.zeros(1, 1, 1), torch.ones(1, 1, 1), steps=3).flatten().tolist()
    [0.0, 0.5, 1.0]
    """
    _require_alike(first, second)
    t = torch.linspace(0, 1, whole("steps", steps, 2), dtype=first.dtype, device=first.device)
    return torch.lerp(first[None], second[None], t.reshape(-1, *[1] * first.ndim))


@dataclass(frozen=True, eq=False)
class Hull:
    """Points of the plane through three images, as mixtures and as places on an equilateral triangle."""

    images: Tensor  # (n, c, h, w)
    weights: Tensor  # (n, 3), which add up to 1
    places: Tensor  # (n, 2), with the three images at CORNERS

    @classmethod
    def of(
        cls, first: Tensor, second: Tensor, third: Tensor, steps: int = 20, reach: float = 0.0
    ) -> Hull:
        """A triangular lattice with `steps` intervals a side of three images (c, h, w).

        With `reach` = 0 it is their convex hull; above, the affine hull up to weights of -reach. Refused
        are images of several shapes, no steps, and a reach below 0.

        >>> Hull.of(*torch.zeros(3, 1, 2, 2), steps=2).weights.tolist()[:3]
        [[0.0, 0.0, 1.0], [0.0, 0.5, 0.5], [0.0, 1.0, 0.0]]
        """
        _require_alike(first, second, third)
        count = whole("steps", steps)
        if number("reach", reach) < 0:
            raise InputError(f"reach = {reach} was given, but it must be at least 0.")
        low = -math.floor(count * reach + 1e-9)
        high = count - 2 * low
        weights = torch.tensor(
            [
                (i / count, j / count, (count - i - j) / count)
                for i in range(low, high + 1)
                for j in range(low, high + 1)
                if count - i - j >= low
            ],
            dtype=torch.float64,
        )
        stacked = torch.stack([first, second, third]).flatten(1)
        mixed = weights.to(stacked) @ stacked
        return cls(mixed.reshape(-1, *first.shape), weights, weights @ CORNERS)


def _require_alike(*images: Tensor) -> None:
    for image in images:
        require_instance("an image", image, Tensor, "data.inputs()[0]")
    if len({image.shape for image in images}) > 1:
        shapes = ", ".join(str(tuple(image.shape)) for image in images)
        raise InputError(f"Images of shapes {shapes} were given, but they must be of one shape.")
