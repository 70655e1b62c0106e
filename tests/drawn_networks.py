"""Networks with drawn weights, points for them, and their volumes without a progress bar."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from numeric import geometry

WIDE = {"dtype": torch.float64}


def points(n: int, d: int, seed: int = 0) -> Tensor:
    return torch.randn(n, d, generator=torch.Generator().manual_seed(seed), **WIDE)


def drawn(module: nn.Module) -> nn.Module:
    generator = torch.Generator().manual_seed(1)
    for weight in module.double().parameters():
        nn.init.normal_(weight, 0, weight.shape[-1] ** -0.5, generator=generator)
    return module


def deep(d: int, *widths: int) -> nn.Module:
    pairs = zip((d, *widths), widths, strict=False)
    return drawn(nn.Sequential(*(m for a, b in pairs for m in (nn.Linear(a, b), nn.GELU()))))


def volume_of(*args: Any, **kwargs: Any) -> geometry.LogVolume:
    return geometry.log_volume(*args, progress=False, **kwargs)


def spectrum_of(*args: Any, **kwargs: Any) -> geometry.MetricSpectrum:
    return geometry.spectrum(*args, progress=False, **kwargs)
