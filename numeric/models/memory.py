"""Memory that a chunk of points has freed is kept for the next one."""

from __future__ import annotations

from functools import cache

import torch

LARGEST = 2**25 - 2**13  # bytes; glibc learns from no block larger than 32 MB


@cache
def keep_memory() -> None:
    """Teaches glibc not to give each array back: mapping its pages anew takes longer than to fill it.

    From one large block that is freed, glibc takes the size below which it keeps memory. No page of that
    block is ever touched.
    """
    torch.empty(LARGEST, dtype=torch.uint8)
