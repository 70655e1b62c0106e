r"""Regression and classification with any kernel, as estimators: Gaussian processes given noisy targets.

Both are `numeric.infinite.posterior` behind scikit-learn's interface: mean $K_*(K + s)^{-1}y$, and for the
regressor the standard deviation of the function at new points.
"""

from __future__ import annotations

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import Tags

from analytic.activations import relu
from numeric.infinite.network import FullyConnected
from numeric.infinite.prediction import Conditioned, Prediction, Regression
from numeric.inputs import ArrayLike, InputError, require_instance, resolve
from numeric.kernels import Kernel
from numeric.learned.estimator_inputs import (
    Array,
    Targets,
    as_input_type,
    encoded_labels,
    new_signals,
    require_targets,
    validated,
)

__all__ = ["KernelClassifier", "KernelRegressor"]


class KernelRegressor(RegressorMixin, BaseEstimator):
    r"""A Gaussian process with any Kernel as covariance, given targets with noise: kernel ridge regression.

    `kernel` is any Kernel, such as `net.ntk` of a network whose signals are (n, channels, ...), by default
    `FullyConnected(relu).nngp`; `noise`, at least 0, is the variance of the noise. The prior mean is 0: give
    centred targets. Everything is computed in float64. After `fit`, `process_` predicts means and covariances
    as tensors, and has the condition number. Refused are numbers out of range, and without noise targets
    that contradict each other.

    >>> x, y = [[0.0], [1.0], [2.0]], [0.0, 1.0, 0.0]
    >>> machine = KernelRegressor(noise=0.1, device="cpu").fit(x, y)
    >>> mean, std = machine.predict([[1.0], [9.0]], return_std=True)
    >>> bool(std[0] < std[1])
    True
    """

    def __init__(
        self,
        kernel: Kernel | None = None,  # FullyConnected(relu).nngp
        *,
        noise: float = 1e-3,
        device: str = "auto",
    ) -> None:
        self.kernel = kernel
        self.noise = noise
        self.device = device

    def fit(self, X: ArrayLike, y: ArrayLike) -> KernelRegressor:
        """(n, d) points or (n, channels, ...) signals, and (n,) or (n, o) targets."""
        require_targets(self, y)
        X, y = validated(self, X, y, multi_output=True, y_numeric=True, allow_nd=True)
        if y.dtype.kind not in "biuf":
            raise InputError(
                f"y holds {y.dtype} values such as {y.flat[0]!r}, but targets are numbers."
            )
        self.process_ = _process(self, X, y)
        return self

    def predict(self, X: ArrayLike, return_std: bool = False) -> Array | tuple[Array, Array]:
        """The mean, (m,) or (m, o), and with `return_std` the standard deviation (m,) of every output.

        Both are arrays or tensors, as X is. Standard deviations need the kernel of all new points.
        """
        prediction = _at(self, X)
        mean = as_input_type(prediction.mean, X)
        return (mean, as_input_type(prediction.std, X)) if return_std else mean

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.input_tags.three_d_array = True
        return tags


class KernelClassifier(ClassifierMixin, BaseEstimator):
    r"""Least squares on classes with any Kernel: one output a class, $1 - 1/C$ in it and $-1/C$ in others.

    `kernel`, `noise` and `device` are those of a KernelRegressor; with the tangent kernel of a network this
    is the mean of wide networks trained to the end, with weights held to their start by `noise`. Predicted
    is the class of the largest output. After `fit`, `classes_` holds the labels and `process_` the
    regression. Refused are numbers out of range, measurements instead of labels, and labels of one class.

    >>> x, y = [[0.0], [1.0], [3.0], [4.0]], ["low", "low", "high", "high"]
    >>> KernelClassifier(device="cpu").fit(x, y).predict([[0.5], [3.5]]).tolist()
    ['low', 'high']
    """

    def __init__(
        self,
        kernel: Kernel | None = None,  # FullyConnected(relu).nngp
        *,
        noise: float = 1e-3,
        device: str = "auto",
    ) -> None:
        self.kernel = kernel
        self.noise = noise
        self.device = device

    def fit(self, X: ArrayLike, y: Targets) -> KernelClassifier:
        """(n, d) points or (n, channels, ...) signals, and (n,) labels of two classes or more."""
        require_targets(self, y)
        X, y = validated(self, X, y, ensure_min_samples=2, allow_nd=True)
        self.classes_, which = encoded_labels(y)
        targets = np.eye(len(self.classes_))[which] - 1 / len(self.classes_)
        self.process_ = _process(self, X, targets)
        return self

    def decision_function(self, X: ArrayLike) -> Array:
        """The outputs (m, classes), or for two classes (m,) by how much the second is ahead."""
        mean = _at(self, X).mean
        return as_input_type(mean[:, 1] - mean[:, 0] if len(self.classes_) == 2 else mean, X)

    def predict(self, X: ArrayLike) -> Array:
        """(m,) labels; a tensor for a tensor if the labels are numbers."""
        which = _at(self, X).mean.argmax(1).cpu()
        labels = self.classes_[which.numpy()]
        return (
            as_input_type(torch.tensor(labels, device="cpu"), X)
            if labels.dtype.kind in "biuf"
            else labels
        )

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        return tags


def _process(
    estimator: KernelRegressor | KernelClassifier, X: np.ndarray, y: np.ndarray
) -> Conditioned:
    kernel = FullyConnected(relu).nngp if estimator.kernel is None else estimator.kernel
    require_instance("kernel", kernel, Kernel, "FullyConnected(relu).ntk")
    device = resolve(estimator.device)
    x, targets = (torch.tensor(part, dtype=torch.float64, device=device) for part in (X, y))
    process = Conditioned.on(kernel, Regression.of(x, targets), estimator.noise)
    process.spectrum.warn("kernel", "noise")
    return process


def _at(estimator: KernelRegressor | KernelClassifier, X: ArrayLike) -> Prediction:
    x = new_signals(estimator, X)
    process = estimator.process_
    return process.at(x.to(process.data.x.device))
