"""Keep memory that one chunk of points has freed for the next one."""

from __future__ import annotations

from functools import cache

import torch

LARGEST = 2**25 - 2**13  # bytes; glibc ignores blocks larger than 32 MB


@cache
def keep_memory() -> None:
    """Make glibc keep freed arrays: mapping their pages anew takes longer than filling them.

    When a large block is freed, glibc raises the threshold below which it keeps memory to that size. No page
    of the block allocated here is ever touched.
    """
    torch.empty(LARGEST, dtype=torch.uint8)
