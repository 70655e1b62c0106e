r"""Two-dimensional classification tasks, each with the recipe by which the paper trains on it.

Of Zavatone-Veth et al., appendix G 1: XOR (G.1), and a sinusoidal boundary (G.2), whose amplitude
the text at hand has lost; 3/5 is what the authors' public code has. The paper leaves the size of
minibatches open; 50 is theirs too.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor

from numeric.inputs import (
    ArrayLike,
    InputError,
    fraction,
    generator_for,
    positive,
    require_instance,
    whole,
)
from numeric.inputs import points as points_from

__all__ = ["Recipe", "Task", "shuffled", "sinusoid", "xor"]

Sample = Callable[[torch.Generator], tuple[Tensor, Tensor]]  # -> (n, 2), (n,)
HALF = math.sqrt(0.5)
MIRROR = ((-1.0, 0.0), (0.0, 1.0))
EIGHTH_TURN = ((HALF, -HALF), (HALF, HALF))


@dataclass(frozen=True)
class Recipe:
    """Stochastic gradient descent on the cross entropy, to which nothing is ever added.

    >>> Recipe(rate=0.1, momentum=0.9, decay=0.0, epochs=3, batch_size=50).steps(examples=120)
    9
    """

    rate: float
    momentum: float
    decay: float  # of weights, in the optimiser
    epochs: int
    batch_size: int | None = None  # None: all examples at once

    def __post_init__(self) -> None:
        positive("rate", self.rate)
        fraction("momentum", self.momentum, zero=True)
        positive("decay", self.decay, zero=True)
        whole("epochs", self.epochs, 0)
        if self.batch_size is not None:
            whole("batch_size", self.batch_size)

    @property
    def optimizer(self) -> Callable[..., torch.optim.Optimizer]:
        """A function from parameters to the optimiser, for `numeric.runs.train`."""
        settings = {"lr": self.rate, "momentum": self.momentum, "weight_decay": self.decay}
        return partial(torch.optim.SGD, **settings)

    def steps(self, examples: int) -> int:
        """Updates in all."""
        return self.epochs * math.ceil(examples / (self.batch_size or examples))

    def with_larger_steps(self, factor: int) -> Recipe:
        """The same training time, rate times epochs, in fewer and larger steps.

        >>> Recipe(0.1, 0.9, 0.0, epochs=20).with_larger_steps(10).epochs
        2
        """
        epochs, rest = divmod(self.epochs, whole("factor", factor))
        if rest:
            raise InputError(f"{self.epochs} epochs are no multiple of {factor}.")
        return replace(self, rate=self.rate * factor, epochs=epochs)


@dataclass(frozen=True, eq=False)
class Task:
    """Points in the plane with labels 0 and 1, and, where it is known, the curve between them."""

    name: str
    sample: Sample
    recipe: Recipe
    reach: float  # geometry is measured in a disc of this radius around the origin
    side: Callable[[Tensor], Tensor] | None = None  # (m, 2) -> (m,), positive where labels are 1
    decoy: tuple[tuple[float, float], ...] = (
        MIRROR  # maps the boundary to a curve that is no boundary
    )

    def data(self, seed: int, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
        """Points (n, 2) and labels (n,) of one draw of the task."""
        x, y = self.sample(generator_for("data", whole("seed", seed, 0)))
        return x.to(dtype), y

    def __post_init__(self) -> None:
        require_instance("name", self.name, str, "'xor'")
        require_instance("recipe", self.recipe, Recipe, "xor().recipe")
        positive("reach", self.reach)
        if not callable(self.sample):
            raise InputError(
                f"sample = {self.sample!r} was given, but a function from a torch.Generator to points (n, 2) "
                "and labels (n,) is needed."
            )

    @classmethod
    def of(
        cls,
        x: ArrayLike,
        y: ArrayLike,
        recipe: Recipe | None = None,
        reach: float | None = None,
    ) -> Task:
        """A task from given points (n, 2) and labels (n,), without a known boundary.

        `reach` is 1.5 times the largest coordinate unless given, and the recipe is that of XOR. Refused are
        labels other than 0 and 1, or of one kind only.

        >>> Task.of([[0, 0], [1, 1]], [0, 1]).reach
        1.5
        """
        points = points_from(x, "cpu", d=2)
        try:
            labels = torch.as_tensor(y)
        except (TypeError, ValueError, RuntimeError):
            raise InputError(f"Labels must be 0 and 1, not {y!r}.") from None
        if labels.shape != points.shape[:1]:
            raise InputError(
                f"Points (n, 2) with labels (n,) are needed, but {tuple(points.shape)} and "
                f"{tuple(labels.shape)} were given."
            )
        if set(labels.tolist()) != {0, 1}:
            raise InputError(
                f"Labels must be 0 and 1, and both, not {sorted(set(labels.tolist()))}."
            )
        examples = points, labels.long()
        span = 1.5 * points.abs().max().item() if reach is None else reach
        return cls("points", lambda _: examples, recipe or xor().recipe, span)


def xor() -> Task:
    """Four corners of a square, opposite ones with equal labels; the boundary is both axes.

    >>> xor().data(seed=0)[1].tolist()
    [0, 1, 1, 0]
    """
    corners = torch.tensor([[-1, -1], [-1, 1], [1, -1], [1, 1]], dtype=torch.float64)
    labels = torch.tensor([0, 1, 1, 0])
    recipe = Recipe(rate=0.02, momentum=0.9, decay=1e-4, epochs=2_000)
    side = lambda x: -x[..., 0] * x[..., 1]  # noqa: E731
    return Task("xor", lambda _: (corners, labels), recipe, 1.5, side, EIGHTH_TURN)


def sinusoid(points: int = 400) -> Task:
    """Uniform on [-1, 1]^2, with label 1 above y = (3/5) sin(7x - 1); 2 points at least.

    >>> sinusoid(10).data(seed=0)[0].shape
    torch.Size([10, 2])
    """
    count = whole("points", points, 2)

    def side(x: Tensor) -> Tensor:
        return x[..., 1] - 0.6 * torch.sin(7 * x[..., 0] - 1)

    def sample(generator: torch.Generator) -> tuple[Tensor, Tensor]:
        x = 2 * torch.rand(count, 2, generator=generator, dtype=torch.float64) - 1
        return x, (side(x) > 0).long()

    recipe = Recipe(rate=0.05, momentum=0.9, decay=0.0, epochs=10_000, batch_size=50)
    return Task("sinusoid", sample, recipe, 1.0, side)


def shuffled(y: Tensor, seed: int) -> Tensor:
    """A permutation of the labels (n,) that neither equals them nor swaps all of them, if there is one.

    >>> shuffled(xor().data(seed=0)[1], seed=0).sum().item()
    2
    """
    require_instance("y", y, Tensor, "the labels of xor().data(0)")
    generator = generator_for("labels", whole("seed", seed, 0))
    for _ in range(100):
        other = y[torch.randperm(len(y), generator=generator)]
        if not (torch.equal(other, y) or torch.equal(other, 1 - y)):
            return other
    raise InputError(f"The labels {y.tolist()} have no other order: give three examples or more.")
