"""The laws that every kernel obeys, as a check for tests and users."""

from __future__ import annotations

import torch
from torch import Tensor

from numeric.inputs import ArrayLike, positive, require_instance, require_signals
from numeric.kernels.kernel import Kernel, Tiled

__all__ = ["assert_kernel"]

ULPS = 64  # roundings in one entry, relative to sqrt(k(x, x) k(y, y))


def assert_kernel(kernel: Kernel, x: ArrayLike, y: ArrayLike, ulps: float = ULPS) -> None:
    """Raise an AssertionError where a kernel breaks a law at points x (n, ...) and y (m, ...).

    Laws: the shape is (n, m), on the device and with the dtype of x; k(x, y) = k(y, x)^T; k(x) is
    k(x, x), positive semidefinite to rounding, with `diagonal` as its diagonal; neither tiles nor the
    order of points change an entry. Entries are compared relative to sqrt(k(x, x) k(y, y)), with so many
    `ulps` of the dtype; eigenvalues may be negative by n times that of the largest. What is no Kernel, and
    points of other shapes, are refused by an InputError.

    >>> from numeric.kernels import FunctionKernel
    >>> assert_kernel(FunctionKernel(lambda x, y: x @ y.T), [[1.0], [2.0]], [[3.0]])
    >>> assert_kernel(FunctionKernel(lambda x, y: -x @ y.T), [[1.0], [2.0]], [[3.0]])
    Traceback (most recent call last):
    AssertionError: k(x, x) below 0
    """
    require_instance("kernel", kernel, Kernel, "FunctionKernel(function)")
    x, y = require_signals(x, y)
    ulps = positive("ulps", ulps)
    cross, own = kernel(x, y), kernel(x)
    assert cross.shape == (len(x), len(y)), f"shape {tuple(cross.shape)}"
    assert own.shape == (len(x), len(x)), f"shape {tuple(own.shape)}"
    for gram in (cross, own, kernel.diagonal(x)):
        assert gram.dtype == x.dtype, f"{gram.dtype} for points of {x.dtype}"
        assert gram.device == x.device, f"on {gram.device} for points on {x.device}"
        assert gram.isfinite().all(), "NaN or infinite entries"
    here, there = kernel.diagonal(x), kernel.diagonal(y)
    assert (here >= 0).all(), "k(x, x) below 0"
    bound = ulps * torch.finfo(x.dtype).eps
    scale = (here[:, None] * there).sqrt()
    own_scale = (here[:, None] * here).sqrt()

    def close(one: Tensor, other: Tensor, scale: Tensor, law: str) -> None:
        off = (one - other).abs() - bound * scale
        assert (off <= 0).all(), f"{law}: off by {(one - other).abs().max():.3g}"

    close(cross, kernel(y, x).T, scale, "k(x, y) = k(y, x)")
    close(own, own.T, own_scale, "k(x) is symmetric")
    close(own, kernel(x, x), own_scale, "k(x) = k(x, x)")
    close(own.diagonal(), here, here, "diagonal(x) is the diagonal of k(x)")
    order = torch.arange(len(y) - 1, -1, -1, device=y.device)
    close(
        cross[:, order], kernel(x, y[order]), scale[:, order], "the order of points does not matter"
    )
    close(cross, Tiled(kernel, 3, 2)(x, y), scale, "tiles do not matter")
    values = torch.linalg.eigvalsh((own + own.T) / 2)
    least = -len(x) * bound * values[-1].abs()
    assert values[0] >= least, f"not positive semidefinite: eigenvalue {values[0]:.3g}"
