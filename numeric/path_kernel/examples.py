"""Training examples by the hash of their content, the loss of a batch, and the weight of each in it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable

import numpy as np
import torch
from torch import Tensor

from numeric.inputs import InputError, shown
from numeric.runs.result import Loss

__all__ = ["SIZE", "content", "digests", "is_mean", "loss_of", "spread"]

CHECKED = 256  # examples at most whose losses are compared with the loss of all of them
SIZE = 16  # bytes of a digest


def content(parts: Iterable[tuple[str, Tensor]]) -> str:
    """A hash of names, shapes, dtypes and bytes, wherever the tensors are."""
    digest = hashlib.blake2b(digest_size=SIZE)
    for name, part in parts:
        digest.update(repr((name, tuple(part.shape), part.dtype)).encode())
        digest.update(_rows(part[None]).tobytes())
    return digest.hexdigest()


def digests(x: Tensor, y: Tensor) -> np.ndarray:
    """A hash of each example, of its input and its target: (n, ...), (n, ...) -> (n, 16) bytes."""
    kind = repr([(tuple(part.shape[1:]), part.dtype) for part in (x, y)]).encode()
    made = [
        hashlib.blake2b(
            one.tobytes() + other.tobytes(), digest_size=SIZE, salt=_salt(kind)
        ).digest()
        for one, other in zip(_rows(x), _rows(y), strict=True)
    ]
    return np.frombuffer(b"".join(made), np.uint8).reshape(len(made), SIZE)


def _salt(kind: bytes) -> bytes:
    return hashlib.blake2b(kind, digest_size=hashlib.blake2b.SALT_SIZE).digest()


def _rows(part: Tensor) -> np.ndarray:
    """The bytes of each row."""
    values = part.detach().cpu().contiguous().reshape(len(part), -1)
    return values.view(torch.uint8).numpy()


def loss_of(loss: Loss, outputs: Tensor, targets: Tensor) -> Tensor:
    """The loss of a batch, one number; a loss that fails is told with the shapes that it fails on."""
    try:
        value = loss(outputs, targets)
    except InputError:  # says already what is wrong
        raise
    except Exception as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise InputError(
            f"The loss fails on outputs of shape {tuple(outputs.shape)} and targets of shape "
            f"{tuple(targets.shape)} and {targets.dtype} from {targets.min():g} to {targets.max():g} "
            f"({reason}): give class numbers from 0 to below the number of outputs, or as many targets "
            "as outputs, as the loss takes them."
        ) from error
    if not isinstance(value, Tensor) or value.ndim or not value.requires_grad:
        raise InputError(
            f"The loss gave {shown(value)}, but one number that depends on the outputs is needed: take a "
            "mean or a sum, and detach nothing."
        )
    return value


def is_mean(loss: Loss, outputs: Tensor, targets: Tensor) -> bool:
    """Whether the loss of a batch is the mean of its examples' losses, else it is their sum.

    Compared are derivatives by the outputs (n, k), to half of their digits. Refused are losses that are
    neither, such as those that mix examples.
    """
    outputs, targets = (spread(part.detach()) for part in (outputs, targets))
    if len(outputs) == 1:  # a mean and a sum of one are the same
        outputs, targets = torch.cat([outputs] * 2), torch.cat([targets] * 2)
    for at in (outputs, _moved(outputs)):  # losses with flat parts may have no slope at the outputs
        whole = _slope(loss, at, targets)
        parts = torch.cat([_slope(loss, at[i : i + 1], targets[i : i + 1]) for i in range(len(at))])
        size = torch.maximum(whole.abs().amax(), parts.abs().amax() / len(at))
        if size:
            break
    allowed = torch.finfo(outputs.dtype).eps ** 0.5 * size
    for mean, expected in ((True, parts / len(at)), (False, parts)):
        if (whole - expected).abs().amax() <= allowed:
            return mean
    if outputs.shape != targets.shape and outputs.numel() == targets.numel():
        raise InputError(
            f"Outputs of shape {(shape := tuple(outputs.shape))} and targets of shape {tuple(targets.shape)} "
            f"mix in the loss, each with all others: give targets by .view{(-1, *shape[1:])}."
        )
    raise InputError(
        f"{getattr(loss, '__name__', type(loss).__name__)} of several examples is neither the sum nor the "
        "mean of their losses one by one, so that no example has a share of its own: give a loss that "
        "treats each example alone, and takes a mean or a sum."
    )


def spread(part: Tensor) -> Tensor:
    """Some of the examples, (n, ...) -> (m, ...), evenly spaced."""
    count = min(len(part), CHECKED)
    return part[torch.linspace(0, len(part) - 1, count, device=part.device).long()]


def _slope(loss: Callable[[Tensor, Tensor], Tensor], outputs: Tensor, targets: Tensor) -> Tensor:
    outputs = outputs.clone().requires_grad_()
    with torch.enable_grad():
        return torch.autograd.grad(loss_of(loss, outputs, targets), outputs)[0]


def _moved(outputs: Tensor) -> Tensor:
    """Other outputs, each moved by a distance of its own."""
    places = torch.arange(outputs.numel(), device=outputs.device).view_as(outputs)
    return outputs + places.to(outputs).sin()
