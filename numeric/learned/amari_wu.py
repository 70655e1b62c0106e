r"""Support vector machines whose kernel is magnified near their own decision boundary, after Amari and Wu.

A machine is fitted with k, then again with $\tilde k(x,y) = c(x)c(y)k(x,y)$ where
$c(x) = \sum_v e^{-|x-v|^2/2\tau^2}$ runs over the support vectors of the first, and so on (section III).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.svm import SVC
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from numeric.inputs import InputError, points, positive, resolve, whole
from numeric.kernels import Kernel
from numeric.kernels.jets import Jet, outer
from numeric.kernels.two_point import CHUNK, Volume, squared_distances, volume_of_metric
from numeric.learned.estimator_inputs import returned, validated
from numeric.learned.kernels import Base, Mahalanobis, framed


@dataclass(frozen=True, eq=False)
class Conformal(Kernel):
    """c(x) c(y) k(x, y), where c is the product of one sum of bumps for each set of centres."""

    kernel: Mahalanobis
    centres: tuple[Tensor, ...]  # each (v, d)
    tau: float

    def log_factor(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """log c and its gradient: (n, d) -> (n,), (n, d); far away, c itself would be 0 in floats."""
        log, slope = x.new_zeros(len(x)), torch.zeros_like(x)
        for centres in self.centres:
            heights = squared_distances(x, centres) / (-2 * self.tau**2)
            log = log + heights.logsumexp(1)
            slope = slope + (heights.softmax(1) @ centres - x) / self.tau**2
        return log, slope

    def __call__(self, x: Any, y: Any = None) -> Tensor:
        """(n, d), (m, d) -> (n, m); y is x if it is not given."""
        x = self._points(x)
        y = x if y is None else self._points(y)
        left, right = (self.log_factor(z)[0].exp() for z in (x, y))
        return left[:, None] * self.kernel(x, y) * right

    def diagonal(self, x: Any) -> Tensor:
        x = self._points(x)
        return (2 * self.log_factor(x)[0]).exp() * self.kernel.diagonal(x)

    def jet(self, x: Any) -> Jet:
        """Its metric is c^2 g + k dc dc^T + c (dc b^T + b dc^T), b the slope of k in y at y = x."""
        log, jet = self._over_square(self._points(x))
        square = (2 * log).exp()
        return Jet(
            square * jet.value, square[:, None] * jet.drift, square[:, None, None] * jet.metric
        )

    def volume(self, x: Any) -> Volume:
        """sqrt(det g) in logs, finite even where c is not."""
        log, jet = self._over_square(self._points(x))
        inner = volume_of_metric(jet.metric)
        return Volume(inner.log + inner.rank * log, inner.rank)

    def _points(self, x: Any) -> Tensor:
        """Points of as many coordinates as the centres have."""
        return points(x, d=self.centres[0].shape[1] if self.centres else None)

    def _over_square(self, x: Tensor) -> tuple[Tensor, Jet]:
        """log c, and the jet over c^2, which needs the slope of log c only."""
        log, slope = self.log_factor(x)
        return log, Jet(torch.ones_like(log), slope, outer(slope, slope)) * self.kernel.jet(x)


class AmariWuClassifier(ClassifierMixin, BaseEstimator):
    """`rounds` magnifications after a plain machine; `kernels_` and `machines_` hold each stage.

    With M in the kernel, the bumps are still round: the paper measures them in the Euclidean norm.
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

    def fit(self, X: Any, y: Any) -> AmariWuClassifier:
        """(n, d) points and (n,) labels of two classes or more."""
        tau, C = positive("tau", self.tau), positive("C", self.C)
        rounds = whole("rounds", self.rounds, 0)
        if y is None:
            raise InputError(
                "AmariWuClassifier requires y to be passed, but the target y is None: give it."
            )
        X, y = validated(self, X, y, ensure_min_samples=2)
        try:
            check_classification_targets(y)
        except ValueError as error:
            raise InputError(f"{error} Give labels, not measurements.") from None
        self.classes_ = np.unique(y)
        if len(self.classes_) < 2:
            raise InputError(
                f"y holds one class, {self.classes_.tolist()[0]!r}, but a boundary needs two at least: "
                "add samples of another class."
            )
        x = points(X, resolve(self.device))
        kernels, machines = [Conformal(framed(self.kernel), (), tau)], []
        for _ in range(rounds + 1):
            kernel = kernels[-1]
            machine = SVC(kernel="precomputed", C=C).fit(kernel(x).cpu().numpy(), y)
            machines.append(machine)
            supports = x[torch.tensor(machine.support_, device=x.device)]
            kernels.append(Conformal(kernel.kernel, (*kernel.centres, supports), tau))
        self.kernels_, self.machines_, self.points_ = kernels[:-1], machines, x
        return self

    def predict(self, X: Any) -> Any:
        """(m, d) -> (m,) labels; a tensor for a tensor if the labels are numbers."""
        gram = self._gram(X)
        labels = self.machines_[-1].predict(gram)
        numbers = labels.dtype.kind in "biuf"
        return returned(torch.tensor(labels), X) if numbers else labels

    def decision_function(self, X: Any) -> Any:
        """(m, d) -> (m,), or one column for each class if there are more than two."""
        gram = self._gram(X)
        return returned(torch.tensor(self.machines_[-1].decision_function(gram)), X)

    def _gram(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        x = points(validated(self, X, reset=False), self.points_.device)
        rows = max(1, CHUNK // len(self.points_))
        parts = [self.kernels_[-1](some, self.points_) for some in x.split(rows)]
        return torch.cat(parts).cpu().numpy()
