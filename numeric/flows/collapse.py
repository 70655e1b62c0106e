r"""Class means and deviations within classes along a flow, at the outputs or at any layer before them.

With labels that depend on the class alone, outputs on straight lines have (Corollary 3.2)

$$\bar x_j(t) - y_j = (1-t)(\bar x_j(0) - y_j), \qquad \Delta x_i(t) = (1-t)\,\Delta x_i(0),$$

so that each class collapses to a point. Nothing of the kind is forced on the penultimate layer, where neural
collapse is usually measured: `Collapse.variability` says what happens there.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from analytic.expressions.arguments import listed
from numeric.flows.flow import Flow
from numeric.inputs import ArrayLike, InputError, as_numbers, between, require_instance, shown

__all__ = ["Collapse", "collapse"]


@dataclass(frozen=True, eq=False)
class Collapse:
    """Features of the training points at some times, split by class."""

    times: Tensor  # (T,), on the host
    classes: Tensor = field(repr=False)  # (N,), from 0 to C - 1
    means: Tensor = field(repr=False)  # (T, C, p)
    deviations: Tensor = field(repr=False)  # (T, N, p), from the mean of the own class

    @property
    def counts(self) -> Tensor:
        """The number of points in each class, (C,)."""
        return torch.bincount(self.classes, minlength=self.means.shape[1])

    @property
    def within(self) -> Tensor:
        """The mean of |deviation|^2 over all points, (T,): the first term of (3.11)."""
        return self.deviations.square().sum(2).mean(1)

    def from_targets(self, targets: Tensor) -> Tensor:
        """sum_j N_j / N |mean_j - target_j|^2, (T,): the second term of (3.11), with the shares it lacks."""
        shares = self.counts.to(self.means) / len(self.classes)
        return ((self.means - targets).square().sum(2) * shares).sum(1)

    @property
    def between(self) -> Tensor:
        """The mean of |mean of the own class - mean of all|^2 over all points, (T,)."""
        shares = self.counts.to(self.means)[:, None] / len(self.classes)
        centre = (shares * self.means).sum(1, keepdim=True)
        return (shares[:, 0] * (self.means - centre).square().sum(2)).sum(1)

    @property
    def variability(self) -> Tensor:
        """Variance within classes over variance between them, (T,): 0 is collapse."""
        return self.within / self.between


def collapse(
    flow: Flow, classes: ArrayLike, times: Iterable[float], layer: str | None = None
) -> Collapse:
    """Class means and deviations of a flow's outputs, or of the features at a layer, at some times.

    flow: of `integrate`; classes: (N,), whole numbers from 0 on; times: of the flow; layer: its name.
    Returned is a Collapse. Refused are classes of other shapes or without points, and names of no layer.

    >>> torch.manual_seed(0)  # doctest: +ELLIPSIS
    <...>
    >>> from numeric.flows.flow import integrate
    >>> net = torch.nn.Sequential(torch.nn.Linear(2, 20), torch.nn.Tanh(), torch.nn.Linear(20, 2)).double()
    >>> x, classes = torch.randn(6, 2).double(), torch.tensor([0, 0, 0, 1, 1, 1])
    >>> flow = integrate(net, x, torch.eye(2).double()[classes], until=0.5, tolerance=1e-4)
    >>> outputs = collapse(flow, classes, [0.0, 0.5])
    >>> bool((outputs.deviations[1] - 0.5 * outputs.deviations[0]).abs().max() < 1e-3)
    True
    """
    require_instance("flow", flow, Flow, "flows.integrate(model, x, y)")
    index = _require_classes(classes, len(flow.x), flow.x.device)
    entries = listed("times", times, "times of the flow, such as (0, 0.5, 0.9)")
    moments = [between("a time", t, 0.0, flow.end) for t in entries]
    if not moments:
        raise InputError("times is empty: give times of the flow, such as (0, 0.5, 0.9).")
    model = flow.model if layer is None else flow.model.up_to(layer)
    features = []
    with model.on(flow.x):
        for t in moments:
            values = model.functional_call(flow.parameters(t), flow.x.clone())
            features.append(values.detach().flatten(1))
    path = torch.stack(features)  # (T, N, p)
    one_hot = torch.nn.functional.one_hot(index).to(path)
    means = (one_hot.T / one_hot.sum(0)[:, None]) @ path
    return Collapse(
        torch.tensor(moments, dtype=torch.float64, device="cpu"),
        index,
        means,
        path - means[:, index],
    )


def _require_classes(classes: ArrayLike, n: int, device: torch.device) -> Tensor:
    numbers = as_numbers("classes", classes, f"({n},)").to(device)
    if numbers.shape != (n,) or bool(((numbers < 0) | (numbers != numbers.floor())).any()):
        raise InputError(
            f"classes must be {n} whole numbers from 0 on, one for each point, not {shown(classes)}."
        )
    index = numbers.long()
    if bool((numbers >= n).any()) or not bool((torch.bincount(index) > 0).all()):
        raise InputError("A class has no points: number the classes from 0 on without gaps.")
    return index
