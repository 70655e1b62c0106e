r"""Is the volume element large where a classifier changes its mind between two images?

Zavatone-Veth et al., sections V B and VI, show it on straight lines between images, one by one. The rule
here, fixed before anything was looked at, asks it of many lines at once.

Lines are drawn between test images that the trained network gets right, each image on one line only, so
that lines are independent draws given the network. A class change is where the predicted class differs
between neighbouring points of a line. Two contrasts are taken of the log volume of each line:

- **ends**: its mean at the class changes, less its mean at both end points;
- **beside**: its mean at the class changes, less that at points `BESIDE` of the line before and after each,
  where both lie on the line.

A volume element may be large in the middle of lines for other reasons, as images between two others have
less contrast. So of each contrast that of controls is taken off, at the same places, line by line:

1. **untrained**: the same line under the network before training, or under another draw of its start;
2. **shuffled labels**: the same line under a twin of the same start and data, trained as long on labels in
   another order;
3. **within a class**: another line of the same network between two images of one class, along which its
   prediction never changes;
4. **another's places**: the same line at the places where the class changes on another line, which are as
   near to the middle. (This one was added after the first pictures of digits, whose volumes have one
   broad hill, and before any of its numbers was known.)

The hypothesis stands for a network if for both contrasts and each control that there is, the mean
difference has a confidence interval above 0; all intervals of a network hold together with probability
`level`. As the fourth control came later, both outcomes are told: that of the rule as first stated, with
three controls, and that with the fourth. Self-supervised features have no labels to shuffle, and networks
trained elsewhere no such twin.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from numeric.experiments.decision_boundaries.contrast import Comparison, level_each
from numeric.inputs import InputError, generator_for, require_instance, shown, whole

__all__ = ["BESIDE", "ENDS", "SIDES", "Evidence", "Lines", "lines_between", "lines_within"]

ENDS, SIDES = "ends", "beside"  # what class changes are compared with
PLACES = "another's places"  # the control that needs no other volumes
BESIDE = 0.15  # how far beside, as a share of the line
Prediction = Callable[[Tensor], Tensor]  # images (n, ...) -> classes (n,)


@dataclass(frozen=True, eq=False)
class Lines:
    """Straight lines between images, each looked at in evenly spaced points."""

    start: Tensor = field(repr=False)  # (m, ...)
    end: Tensor = field(repr=False)  # (m, ...)
    points: int = 33

    def __post_init__(self) -> None:
        whole("points", self.points, 3)
        require_instance("start", self.start, Tensor, "images[:9]")
        require_instance("end", self.end, Tensor, "images[9:18]")
        if self.start.shape != self.end.shape or not len(self.start):
            raise InputError(
                f"Lines need as many starts as ends, and one at least, not {tuple(self.start.shape)} and "
                f"{tuple(self.end.shape)}."
            )

    def __len__(self) -> int:
        return len(self.start)

    @property
    def t(self) -> Tensor:
        """(points,), from 0 at the start to 1 at the end."""
        return torch.linspace(0, 1, self.points, dtype=self.start.dtype, device=self.start.device)

    @property
    def x(self) -> Tensor:
        """All points of all lines, (m points, ...)."""
        t = self.t.reshape(1, -1, *(1,) * (self.start.ndim - 1))
        return torch.lerp(self.start[:, None], self.end[:, None], t).flatten(0, 1)

    def on(self, function: Callable[[Tensor], Tensor]) -> Tensor:
        """A function of images, (n, ...) -> (n,), at all points: (m, points)."""
        return function(self.x).reshape(len(self), self.points)


def predicted(model: nn.Module) -> Prediction:
    """The class of the largest output, in evaluation mode."""

    def classes(x: Tensor) -> Tensor:
        with torch.no_grad():
            return model.eval()(x).argmax(1)

    return classes


def lines_between(
    classify: Prediction,
    images: Tensor,
    labels: Tensor,
    count: int,
    seed: int = 0,
    points: int = 33,
) -> Lines:
    """So many lines between images of two classes, all of them classified right and on one line only.

    classify: images (n, ...) -> classes (n,), such as `predicted(model)`. images: (n, ...). labels: (n,). The
    draw is that of the seed. Refused are images and labels that are no tensors of as many, a function that
    gives no class for each image, and more lines than there are images for.

    >>> x, y = torch.tensor([[0.0], [1.0], [2.0], [3.0]]), torch.tensor([0, 1, 0, 1])
    >>> lines = lines_between(lambda x: (x[:, 0] % 2).long(), x, y, count=2)
    >>> sorted(torch.cat([lines.start, lines.end])[:, 0].tolist())
    [0.0, 1.0, 2.0, 3.0]
    """
    rows = _rows_classified_right(classify, images, labels, seed)
    classes = labels.tolist()
    pairs: list[tuple[int, int]] = []
    waiting: list[int] = []  # images of one class that have no partner yet
    for row in rows.tolist():
        if waiting and classes[waiting[0]] != classes[row]:
            pairs.append((waiting.pop(0), row))
        else:
            waiting.append(row)
    return _lines(images, pairs, count, points, "of two classes")


def lines_within(
    classify: Prediction,
    images: Tensor,
    labels: Tensor,
    count: int,
    seed: int = 0,
    points: int = 33,
) -> Lines:
    """So many lines between images of one class, along which the prediction is that class throughout.

    Arguments and refusals are those of `lines_between`.
    """
    rows, partner, pairs = _rows_classified_right(classify, images, labels, seed), {}, []
    classes = labels.tolist()
    for row in rows.tolist():
        label = classes[row]
        if label in partner:
            pairs.append((partner.pop(label), row))
        else:
            partner[label] = row
    if pairs:
        first, second = (list(part) for part in zip(*pairs, strict=True))
        lines = Lines(images[first], images[second], points)
        steady = (lines.on(classify) == labels[first][:, None].to(images.device)).all(1)
        pairs = [pair for pair, stays in zip(pairs, steady.tolist(), strict=True) if stays]
    return _lines(images, pairs, count, points, "of one class without a class change")


def _rows_classified_right(
    classify: Prediction, images: Tensor, labels: Tensor, seed: int
) -> Tensor:
    """The rows of images that are classified right, in the order of the seed."""
    require_instance("images", images, Tensor, "data.inputs()")
    require_instance("labels", labels, Tensor, "data.labels")
    if not images.ndim or labels.shape != images.shape[:1]:
        raise InputError(
            f"labels must have shape (n,), one for each of the images (n, ...), but {tuple(labels.shape)} "
            f"and {tuple(images.shape)} were given."
        )
    if not callable(classify):
        raise InputError(
            f"classify = {shown(classify)} cannot be called: give a function such as predicted(model)."
        )
    order = torch.randperm(len(images), generator=generator_for("lines", whole("seed", seed, 0)))
    classes = classify(images)
    if not isinstance(classes, Tensor) or classes.shape != labels.shape:
        actual = tuple(classes.shape) if isinstance(classes, Tensor) else shown(classes)
        raise InputError(
            f"classify must give a class for each of {len(images)} images, (n,), but it gave {actual}: "
            "predicted(model) takes the largest output."
        )
    right = classes.cpu() == labels.cpu()
    return order[right[order]]


def _lines(
    images: Tensor, pairs: list[tuple[int, int]], count: int, points: int, kind: str
) -> Lines:
    if len(pairs) < whole("count", count):
        raise InputError(
            f"{count} lines were asked for, but the images that are classified right make {len(pairs)} "
            f"{kind}: ask for fewer, train for longer, or give more images."
        )
    start, end = (list(part) for part in zip(*pairs[:count], strict=True))
    return Lines(images[start], images[end], points)


@dataclass(frozen=True, eq=False)
class Evidence:
    """Log volumes of one network along lines, beside those of its controls.

    prediction: classes at the points of all lines, (m, points). log_volume: of the trained network there.
    controls: such as {"untrained": volumes, "shuffled labels": volumes, "within a class": volumes}, the last
    along other lines. Refused are arrays of other shapes, and lines of which fewer than two change class.

    >>> places = torch.tensor([[3.5], [6.5], [4.5], [7.5]])
    >>> points = torch.arange(12.0)
    >>> hills = torch.exp(-(((points - places) / 2) ** 2))
    >>> noise = torch.randn(4, 12, generator=torch.Generator().manual_seed(0)) / 100
    >>> Evidence((points > places).long(), hills + noise, {"untrained": noise}).magnifies
    True
    """

    prediction: Tensor = field(repr=False)
    log_volume: Tensor = field(repr=False)
    controls: Mapping[str, Tensor] = field(repr=False)
    level: float = 0.95

    def __post_init__(self) -> None:
        shape = require_instance("prediction", self.prediction, Tensor, "lines.on(classify)").shape
        for name, volumes in {"log_volume": self.log_volume, **self.controls}.items():
            if not isinstance(volumes, Tensor) or volumes.shape != shape:
                actual = tuple(volumes.shape) if isinstance(volumes, Tensor) else volumes
                raise InputError(f"{name} must have shape {tuple(shape)}, not {actual}.")
            if not volumes.isfinite().all():
                raise InputError(
                    f"{name} has volumes that are NaN or infinite: leave out those lines."
                )
        level_each(self.level, self._intervals(places=True))

    def _intervals(self, places: bool) -> int:
        return 2 * (len(self.controls) + places)

    @property
    def changes(self) -> Tensor:
        """Whether the class changes after each point: (m, points - 1)."""
        return self.prediction[:, 1:] != self.prediction[:, :-1]

    def weights(self, against: str) -> Tensor:
        """The contrast as a weighted sum over the points of a line, (m, points); NaN where there is none."""
        points = self.prediction.shape[1]
        if against not in (ENDS, SIDES):
            raise InputError(f"against must be {ENDS!r} or {SIDES!r}, not {against!r}.")
        steps = round(BESIDE * (points - 1))
        at_change = torch.zeros(points - 1, points, dtype=torch.float64)  # of one change
        reference = torch.zeros_like(at_change)
        for k in range(points - 1):
            at_change[k, k : k + 2] = 0.5
            if against == ENDS:
                reference[k, [0, -1]] = 0.5
            elif steps <= k < points - 1 - steps:
                for shift in (-steps, steps):
                    reference[k, k + shift : k + shift + 2] += 0.25
        usable = self.changes.cpu() & (reference.sum(1) > 0)
        return (usable.double() @ (at_change - reference)) / usable.sum(1, keepdim=True)

    def contrast(self, against: str) -> Tensor:
        """Of each line, in nats: (m,); NaN for those without a class change that can be compared."""
        return (self.weights(against) * self.log_volume.double().cpu()).sum(1)

    def _controlled(self, against: str) -> dict[str, Tensor]:
        """The contrast of each control, line by line."""
        weights = self.weights(against)
        contrasts = {
            name: (weights * volumes.double().cpu()).sum(1)
            for name, volumes in self.controls.items()
        }
        comparable = weights.isfinite().all(1).nonzero()[:, 0]
        others = weights.clone()
        others[comparable] = weights[comparable.roll(1)]
        return contrasts | {PLACES: (others * self.log_volume.double().cpu()).sum(1)}

    def comparisons(self, against: str, places: bool = True) -> dict[str, Comparison]:
        """The contrast less that of each control, line by line; without the fourth if not `places`."""
        controlled = self._controlled(against)
        if not places:
            del controlled[PLACES]
        own, level = self.contrast(against), level_each(self.level, self._intervals(places))
        return {
            name: self._compared(own - contrast, level) for name, contrast in controlled.items()
        }

    def plain(self, against: str) -> Comparison:
        """The contrast by itself, as pictures show it, which decides nothing."""
        return self._compared(self.contrast(against), self.level)

    @property
    def magnifies(self) -> bool:
        """The rule: more than at the end points and than beside, by more than in every control."""
        return self._rule_holds(places=True)

    @property
    def magnifies_as_first_stated(self) -> bool:
        """The rule without the control of another line's places, which was added later."""
        if not self.controls:
            raise InputError(
                "The rule as first stated compares with controls, but none was given: give the volumes of an "
                "untrained network at least."
            )
        return self._rule_holds(places=False)

    def _rule_holds(self, places: bool) -> bool:
        parts = (self.comparisons(against, places) for against in (ENDS, SIDES))
        return all(one.above for part in parts for one in part.values())

    def _compared(self, differences: Tensor, level: float) -> Comparison:
        comparable = differences[differences.isfinite()]
        if len(comparable) < 2:
            raise InputError(
                f"Only {len(comparable)} of {len(differences)} lines have a class change that can be "
                "compared: take lines between images of two classes."
            )
        return Comparison.of(comparable, level, len(differences) - len(comparable))
