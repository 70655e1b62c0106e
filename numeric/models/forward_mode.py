"""Forward-mode derivatives of torch, initialised without the warning that torch raises about itself."""

from __future__ import annotations

import warnings
from functools import cache

import torch
from torch.func import jvp

__all__ = ["prepare"]


@cache
def prepare() -> None:
    """Initialise forward mode once, and silence the deprecation warning that torch raises about itself."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        one = torch.ones(1, device="cpu")
        jvp(torch.sin, (one,), (one,))
