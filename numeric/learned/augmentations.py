"""Random views of images, drawn anew from a torch generator, to train on or to compare.

A view maps images (n, c, h, w) with values from 0 to 1 to images of the same shape, and draws a number
of its own for each image. Without a generator it draws from torch's global one, whose state the training
loop stores, so that a run resumes to the same views.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from numeric.inputs import InputError, between, positive, whole
from numeric.runs import Batch
from numeric.runs.names import qualified_name

__all__ = [
    "Augmented", "Brightness", "Compose", "Contrast", "GaussianBlur", "Grayscale", "HorizontalFlip", "Hue",
    "RandomCrop", "RandomResizedCrop", "Saturation", "Solarize", "Sometimes", "View", "paper_views",
]  # fmt: skip

View = Callable[..., Tensor]  # (images, generator=None) -> images
LUMA = (0.299, 0.587, 0.114)  # of red, green and blue in a grey value
TO_YIQ = ((0.299, 0.587, 0.114), (0.5959, -0.2746, -0.3213), (0.2115, -0.5227, 0.3112))


@dataclass(frozen=True)
class Compose:
    """Several views, one after another.

    >>> both = Compose((HorizontalFlip(), Solarize(0.5)))
    >>> both(torch.tensor([[[[0.0, 0.75]]]])).tolist()
    [[[[0.25, 0.0]]]]
    """

    views: tuple[View, ...]

    def __post_init__(self) -> None:
        if not isinstance(self.views, tuple) or not all(map(callable, self.views)):
            raise InputError(f"views = {self.views!r} was given, but a tuple of views is needed.")

    def __call__(self, images: Tensor, generator: torch.Generator | None = None) -> Tensor:
        for view in self.views:
            images = view(images, generator)
        return images


@dataclass(frozen=True)
class Sometimes:
    """A view of each image with this probability, or else the image as it is."""

    probability: float
    view: View

    def __post_init__(self) -> None:
        between("probability", self.probability, 0, 1)
        if not callable(self.view):
            raise InputError(f"view = {self.view!r} was given, but a view is needed.")

    def __call__(self, images: Tensor, generator: torch.Generator | None = None) -> Tensor:
        changed = _uniform(images, generator) < self.probability
        return torch.where(changed, self.view(images, generator), images)


@dataclass(frozen=True)
class RandomCrop:
    """A window of the same size at random on the image, padded with zeros on all sides."""

    padding: int

    def __post_init__(self) -> None:
        whole("padding", self.padding, 0)

    def __call__(self, images: Tensor, generator: torch.Generator | None = None) -> Tensor:
        n, _, h, w = _require_images(images).shape
        places = 2 * self.padding + 1
        down, right = (
            (_uniform(images, generator) * places).long().clamp(max=places - 1).reshape(n, 1)
            for _ in range(2)
        )
        rows = down + torch.arange(h, device=images.device)  # (n, h)
        columns = right + torch.arange(w, device=images.device)
        padded = F.pad(images, (self.padding,) * 4).permute(0, 2, 3, 1)
        each = torch.arange(n, device=images.device)[:, None, None]
        return padded[each, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)


@dataclass(frozen=True)
class RandomResizedCrop:
    """A random rectangle of at least this share of the area, stretched to the whole, bilinearly.

    Its ratio of width to height is from 3/4 to 4/3, evenly in the logarithm, unless the image cuts it.
    """

    least: float = 0.08

    def __post_init__(self) -> None:
        if between("least", self.least, 0, 1) == 0:
            raise InputError(f"least = {self.least} was given, but a share above 0 is needed.")

    def __call__(self, images: Tensor, generator: torch.Generator | None = None) -> Tensor:
        n = len(_require_images(images))
        area, shape, across, along = (_uniform(images, generator).reshape(n) for _ in range(4))
        side = (self.least + (1 - self.least) * area).sqrt()
        ratio = torch.exp((2 * shape - 1) * math.log(4 / 3)).sqrt()
        width, height = (side * ratio).clamp(max=1), (side / ratio).clamp(max=1)
        corners = images.new_zeros(n, 2, 3)  # from coordinates in the result to those in the image
        corners[:, 0, 0], corners[:, 1, 1] = width, height
        corners[:, 0, 2], corners[:, 1, 2] = (
            (1 - width) * (2 * across - 1),
            (1 - height) * (2 * along - 1),
        )
        grid = F.affine_grid(corners, list(images.shape), align_corners=False)
        return F.grid_sample(images, grid, padding_mode="border", align_corners=False)


@dataclass(frozen=True)
class HorizontalFlip:
    """The mirror image, left for right; `Sometimes(0.5, HorizontalFlip())` draws."""

    def __call__(self, images: Tensor, generator: torch.Generator | None = None) -> Tensor:
        return _require_images(images).flip(3)


@dataclass(frozen=True)
class Brightness:
    """Values times a factor from 1 - amount to 1 + amount."""

    amount: float

    def __post_init__(self) -> None:
        between("amount", self.amount, 0, 1)

    def __call__(self, images: Tensor, generator: torch.Generator | None = None) -> Tensor:
        return (_factor(images, self.amount, generator) * images).clamp(0, 1)


@dataclass(frozen=True)
class Contrast:
    """Differences from the mean grey value of the image times a factor from 1 - amount to 1 + amount."""

    amount: float

    def __post_init__(self) -> None:
        between("amount", self.amount, 0, 1)

    def __call__(self, images: Tensor, generator: torch.Generator | None = None) -> Tensor:
        middle = _grey(images).mean((2, 3), keepdim=True)
        return (middle + _factor(images, self.amount, generator) * (images - middle)).clamp(0, 1)


@dataclass(frozen=True)
class Saturation:
    """Differences from the grey image times a factor from 1 - amount to 1 + amount."""

    amount: float

    def __post_init__(self) -> None:
        between("amount", self.amount, 0, 1)

    def __call__(self, images: Tensor, generator: torch.Generator | None = None) -> Tensor:
        grey = _grey(images)
        return (grey + _factor(images, self.amount, generator) * (images - grey)).clamp(0, 1)


@dataclass(frozen=True)
class Hue:
    """Colours turned by up to this share of a full turn around the grey axis, in the plane of I and Q.

    Images of one channel have no hue, and stay as they are.
    """

    amount: float

    def __post_init__(self) -> None:
        between("amount", self.amount, 0, 0.5)

    def __call__(self, images: Tensor, generator: torch.Generator | None = None) -> Tensor:
        angle = 2 * math.pi * self.amount * (2 * _uniform(images, generator) - 1)
        if images.shape[1] == 1:
            return images
        matrix = images.new_tensor(TO_YIQ)
        y, i, q = torch.einsum("kc,nchw->nkhw", matrix, images).split(1, 1)
        turned = torch.cat(
            [y, angle.cos() * i - angle.sin() * q, angle.sin() * i + angle.cos() * q], 1
        )
        return torch.einsum("ck,nkhw->nchw", torch.linalg.inv(matrix), turned).clamp(0, 1)


@dataclass(frozen=True)
class Grayscale:
    """The grey image in all channels."""

    def __call__(self, images: Tensor, generator: torch.Generator | None = None) -> Tensor:
        return _grey(images).expand_as(images)


@dataclass(frozen=True)
class GaussianBlur:
    """Convolution with a Gaussian whose width in pixels is drawn evenly from `low` to `high`."""

    low: float = 0.1
    high: float = 2.0

    def __post_init__(self) -> None:
        if not positive("low", self.low) <= positive("high", self.high):
            raise InputError(f"low = {self.low} was given, but high = {self.high} is less.")

    def __call__(self, images: Tensor, generator: torch.Generator | None = None) -> Tensor:
        n, c, h, w = _require_images(images).shape
        width = self.low + (self.high - self.low) * _uniform(images, generator).reshape(n, 1)
        reach = min(math.ceil(3 * self.high), h - 1, w - 1)  # reflection reaches no further
        at = torch.arange(-reach, reach + 1, device=images.device)
        kernel = torch.softmax(-((at / width) ** 2) / 2, 1).repeat_interleave(c, 0)  # (n c, k)
        rows = F.pad(images, (reach,) * 4, mode="reflect").reshape(1, n * c, h + 2 * reach, -1)
        rows = F.conv2d(rows, kernel[:, None, :, None], groups=n * c)
        return F.conv2d(rows, kernel[:, None, None, :], groups=n * c).reshape(n, c, h, w)


@dataclass(frozen=True)
class Solarize:
    """Values from the threshold on are inverted, to 1 less the value."""

    threshold: float = 0.5

    def __call__(self, images: Tensor, generator: torch.Generator | None = None) -> Tensor:
        return torch.where(_require_images(images) < self.threshold, images, 1 - images)


@dataclass(frozen=True)
class Augmented:
    """A step of `numeric.runs.train`: a random view of a batch, a loss of outputs and targets, one update.

    loss: such as torch.nn.functional.cross_entropy. view: of images from 0 to 1, which draws from torch's
    global generator, so that an interrupted run resumes to the same ones. prepare: what is done to views
    before they enter the model. State the step in the run's `key`, as in key=repr(step), which names
    functions as every process does: the code of steps is not compared.

    >>> from functools import partial
    >>> from numeric.runs import train
    >>> net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(16, 2))
    >>> step = Augmented(F.cross_entropy, RandomCrop(1))
    >>> data, sgd = (torch.rand(6, 1, 4, 4), torch.arange(6) % 2), partial(torch.optim.SGD, lr=0.1)
    >>> train(net, None, data, sgd, steps=2, step=step, device="cpu", progress=False).steps
    (0, 2)
    """

    loss: Callable[[Tensor, Tensor], Tensor]
    view: View
    prepare: Callable[[Tensor], Tensor] | None = None

    def __repr__(self) -> str:
        loss, view, prepare = map(qualified_name, (self.loss, self.view, self.prepare))
        return f"Augmented(loss={loss}, view={view}, prepare={prepare})"

    def __call__(
        self, model: torch.nn.Module, optimizer: torch.optim.Optimizer, batch: Batch
    ) -> Tensor:
        if batch.y is None:
            raise InputError("data has no targets: give (images, labels).")
        images = self.view(batch.x)
        loss = self.loss(model(images if self.prepare is None else self.prepare(images)), batch.y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()


def paper_views() -> tuple[Compose, Compose]:
    """The two views of appendix G 4, without its normalisation, which belongs to the data.

    Crops of at least 8 percent stretched to the whole, mirror images, jitter of colours, grey images, blur,
    and solarisation; only the last two differ between the views.

    >>> one, _ = paper_views()
    >>> one(torch.rand(4, 3, 32, 32)).shape
    torch.Size([4, 3, 32, 32])
    """
    jitter = Compose((Brightness(0.4), Contrast(0.4), Saturation(0.2), Hue(0.1)))
    common = (
        RandomResizedCrop(0.08),
        Sometimes(0.5, HorizontalFlip()),
        Sometimes(0.8, jitter),
        Sometimes(0.2, Grayscale()),
    )

    def view(blurred: float, solarized: float) -> Compose:
        last = (Sometimes(blurred, GaussianBlur()), Sometimes(solarized, Solarize()))
        return Compose((*common, *last))

    return view(1.0, 0.0), view(0.1, 0.2)


def _uniform(images: Tensor, generator: torch.Generator | None) -> Tensor:
    """A number from 0 to 1 for each image, (n, 1, 1, 1)."""
    place = _require_images(images).device if generator is None else generator.device
    return torch.rand(len(images), 1, 1, 1, generator=generator, device=place).to(images)


def _factor(images: Tensor, amount: float, generator: torch.Generator | None) -> Tensor:
    return 1 + amount * (2 * _uniform(images, generator) - 1)


def _grey(images: Tensor) -> Tensor:
    """(n, c, h, w) -> (n, 1, h, w)."""
    if _require_images(images).shape[1] == 3:
        return torch.einsum("c,nchw->nhw", images.new_tensor(LUMA), images)[:, None]
    return images.mean(1, keepdim=True)


def _require_images(images: Tensor) -> Tensor:
    if not isinstance(images, Tensor) or images.ndim != 4 or not images.is_floating_point():
        actual = tuple(images.shape) if isinstance(images, Tensor) else repr(images)
        raise InputError(f"Images (n, c, h, w) of real numbers are needed, not {actual}.")
    return images
