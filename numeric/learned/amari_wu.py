r"""Support vector machines whose kernel is magnified near their own decision boundary, after Amari and Wu.

A machine is fitted with k, then again with $\tilde k(x,y) = c(x)c(y)k(x,y)$ where
$c(x) = \sum_v e^{-|x-v|^2/2\tau^2}$ runs over the support vectors of the first, and so on (section III).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.svm import SVC
from torch import Tensor

from numeric.inputs import ArrayLike, InputError, points, positive, require_instance, resolve, whole
from numeric.kernels import Jet, Kernel
from numeric.kernels.jets import outer
from numeric.kernels.two_point import Volume, squared_distances, volume_of_metric
from numeric.learned.estimator_inputs import (
    Array,
    Targets,
    as_input_type,
    encoded_labels,
    fitted_points,
    gram_in_chunks,
    require_targets,
    validated,
)
from numeric.learned.kernels import Base, Mahalanobis, as_mahalanobis, like_input

__all__ = ["AmariWuClassifier", "Conformal"]


@dataclass(frozen=True, eq=False)
class Conformal(Kernel):
    r"""c(x) c(y) k(x, y), where c is a product of sums of bumps, one sum for each set of centres.

    $c(x) = \prod_j \sum_v e^{-|x - v|^2/2\tau^2}$, v in `centres[j]` of shape (v, d); `kernel` is k, and
    `tau`, above 0, the width of a bump. Everything is computed in float64, and returned with the dtype and
    device of a tensor x. Points of another dimension than the centres are refused.

    >>> from numeric.learned import Gaussian
    >>> bump = Conformal(Mahalanobis(Gaussian(1.0)), (torch.zeros(1, 2, dtype=torch.float64),), 1.0)
    >>> bump.diagonal([[0.0, 0.0], [1.0, 0.0]]).round(decimals=4).tolist()
    [1.0, 0.3679]
    """

    kernel: Mahalanobis
    centres: tuple[Tensor, ...]  # each (v, d)
    tau: float

    def __post_init__(self) -> None:
        require_instance("kernel", self.kernel, Mahalanobis, "Mahalanobis(Gaussian(1.0))")
        positive("tau", self.tau)
        if not isinstance(self.centres, tuple):
            raise InputError(f"centres must be a tuple of points (v, d), not {self.centres!r}.")
        centres = tuple(points(group, name="centres") for group in self.centres)
        object.__setattr__(self, "centres", centres)

    def log_factor(self, x: ArrayLike) -> tuple[Tensor, Tensor]:
        """log c and its gradient: (n, d) -> (n,), (n, d); far away, c itself would be 0 in floats."""
        x = self._points("x", x)
        log, slope = x.new_zeros(len(x)), torch.zeros_like(x)
        for centres in self.centres:
            centres = centres.to(x)
            heights = squared_distances(x, centres) / (-2 * self.tau**2)
            log = log + heights.logsumexp(1)
            slope = slope + (heights.softmax(1) @ centres - x) / self.tau**2
        return log, slope

    def __call__(self, x: ArrayLike, y: ArrayLike | None = None) -> Tensor:
        """(n, d), (m, d) -> (n, m); y is x if it is not given."""
        left = self._points("x", x)
        right = left if y is None else self._points("y", y)
        c, other = (self.log_factor(z)[0].exp() for z in (left, right))
        return like_input(c[:, None] * self.kernel(left, right) * other, x)

    def diagonal(self, x: ArrayLike) -> Tensor:
        """c(x)^2 k(x, x), (n, d) -> (n,)."""
        inputs = self._points("x", x)
        return like_input((2 * self.log_factor(inputs)[0]).exp() * self.kernel.diagonal(inputs), x)

    def jet(self, x: ArrayLike) -> Jet:
        """Its metric is c^2 g + k dc dc^T + c (dc b^T + b dc^T), b the slope of k in y at y = x."""
        log, jet = self._over_square(self._points("x", x))
        square = (2 * log).exp()
        parts = (
            square * jet.value,
            square[:, None] * jet.drift,
            square[:, None, None] * jet.metric,
        )
        return Jet(*(like_input(part, x) for part in parts))

    def volume(self, x: ArrayLike) -> Volume:
        """sqrt(det g) in logs, finite even where c is not: (n, d) -> (n,) and the rank (n,)."""
        log, jet = self._over_square(self._points("x", x))
        inner = volume_of_metric(jet.metric)
        return Volume(inner.log + inner.rank * log, inner.rank)

    def _points(self, name: str, x: ArrayLike) -> Tensor:
        """Points of as many coordinates as the centres have."""
        return points(x, d=self.centres[0].shape[1] if self.centres else None, name=name)

    def _over_square(self, x: Tensor) -> tuple[Tensor, Jet]:
        """log c, and the jet over c^2, which needs the slope of log c only."""
        log, slope = self.log_factor(x)
        return log, Jet(torch.ones_like(log), slope, outer(slope, slope)) * self.kernel.jet(x)


class AmariWuClassifier(ClassifierMixin, BaseEstimator):
    r"""A support vector machine with $\tilde k(x,y) = c(x)c(y)k(x,y)$, magnified near its own boundary.

    `kernel` is k: a base such as Gaussian(1.0), the default, a Kernel, or a Mahalanobis; with M in it, the
    bumps of c are still round, as the paper measures them in the Euclidean norm. `tau` is their width, `C`
    the penalty of the machines, and `rounds` how often c is made from support vectors after a plain machine.
    After `fit`, `kernels_` and `machines_` hold each stage. Refused are numbers out of range, and labels of
    one class.

    >>> x, y = [[0.0], [1.0], [3.0], [4.0]], [0, 0, 1, 1]
    >>> AmariWuClassifier(rounds=1, device="cpu").fit(x, y).predict([[0.5], [3.5]]).tolist()
    [0, 1]
    """

    def __init__(
        self,
        kernel: Base | Mahalanobis | None = None,  # Gaussian(1.0)
        *,
        tau: float = 0.5,
        C: float = 10.0,
        rounds: int = 1,
        device: str = "auto",
    ) -> None:
        self.kernel = kernel
        self.tau = tau
        self.C = C
        self.rounds = rounds
        self.device = device

    def fit(self, X: ArrayLike, y: Targets) -> AmariWuClassifier:
        """(n, d) points and (n,) labels of two classes or more."""
        tau, C = positive("tau", self.tau), positive("C", self.C)
        rounds = whole("rounds", self.rounds, 0)
        require_targets(self, y)
        X, y = validated(self, X, y, ensure_min_samples=2)
        self.classes_, _ = encoded_labels(y)
        x = points(X, resolve(self.device))
        kernels, machines = [Conformal(as_mahalanobis(self.kernel), (), tau)], []
        for _ in range(rounds + 1):
            kernel = kernels[-1]
            machine = SVC(kernel="precomputed", C=C).fit(kernel(x).cpu().numpy(), y)
            machines.append(machine)
            supports = x[torch.tensor(machine.support_, device=x.device)]
            kernels.append(Conformal(kernel.kernel, (*kernel.centres, supports), tau))
        self.kernels_, self.machines_, self.points_ = kernels[:-1], machines, x
        return self

    def predict(self, X: ArrayLike) -> Array:
        """(m, d) -> (m,) labels; a tensor for a tensor if the labels are numbers."""
        gram = self._gram(X)  # first, since it refuses an estimator that is not fitted
        labels = self.machines_[-1].predict(gram)
        numbers = labels.dtype.kind in "biuf"
        return as_input_type(torch.tensor(labels), X) if numbers else labels

    def decision_function(self, X: ArrayLike) -> Array:
        """(m, d) -> (m,), or one column for each class if there are more than two."""
        gram = self._gram(X)
        return as_input_type(torch.tensor(self.machines_[-1].decision_function(gram)), X)

    def _gram(self, X: ArrayLike) -> np.ndarray:
        x = fitted_points(self, X)
        return gram_in_chunks(self.kernels_[-1], x, self.points_, None).cpu().numpy()
