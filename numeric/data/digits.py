"""The handwritten digits that scikit-learn brings: 1797 images of 8 x 8 pixels, without a network."""

from __future__ import annotations

from functools import cache

import torch

from numeric.data.images import ImageData, Normalisation, Split

__all__ = ["digits"]

LARGEST = 16  # of the grey values


def digits(test: float = 0.25, seed: int = 0, normalisation: Normalisation | None = None) -> Split:
    """Training and test images of handwritten digits, (n, 1, 8, 8), split by the seed.

    The normalisation is by default that of the training images. A share `test` outside (0, 1) is refused.

    >>> train, test = digits()
    >>> len(train), len(test), train.shape
    (1347, 450, (1, 8, 8))
    """
    pair = _all().split(test, seed)
    return pair.normalised_by(normalisation or Normalisation.of(pair.train.pixels))


@cache
def _all() -> ImageData:
    from sklearn.datasets import load_digits  # two seconds, where they are asked for

    bunch = load_digits()
    pixels = torch.from_numpy(bunch.images).float() / LARGEST
    return ImageData.of(pixels, bunch.target, normalisation=Normalisation.identity(1))
