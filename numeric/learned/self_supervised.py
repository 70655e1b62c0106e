r"""The self-supervised kernel of Simon et al.: the representation that positive pairs agree on (F.12)-(F.21).

(F.14) is $Z = KSK/2p$ with S the swap of each point and its partner, so (F.15) is
$K_\Gamma = K^{1/2}SK^{1/2}/2p$ without an inverse, and for an eigenvector u of eigenvalue $\gamma$
$K^{-1/2}u = SK^{1/2}u/(2p\gamma)$ up to a null vector of K, which no kernel value sees.
"""

from __future__ import annotations

from typing import Any

import torch
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from numeric.inputs import InputError, points, resolve, whole
from numeric.kernels import Kernel
from numeric.kernels.jets import Jet
from numeric.kernels.two_point import (
    CHUNK,
    EPSILON,
    Volume,
    symmetric_root,
    volume_of_jacobian,
)  # fmt: skip
from numeric.learned.estimator_inputs import returned, validated
from numeric.learned.kernels import Base, Mahalanobis, framed

TIED = 1e-9  # relative gap below which two eigenvalues count as one


class SelfSupervisedKernel(TransformerMixin, BaseEstimator, Kernel):
    """Features f with k_ss(x, y) = f(x).f(y); over the pairs, the symmetrised mean of f(x) f(x')^T is 1."""

    def __init__(
        self,
        kernel: Base | Mahalanobis | None = None,  # Gaussian(1.0)
        *,
        components: int = 2,
        device: str = "auto",
    ) -> None:
        self.kernel = kernel
        self.components = components
        self.device = device

    def fit(self, X: Any, positives: Any) -> SelfSupervisedKernel:
        """(p, d) points and (p, d) partners; `spectrum_` then holds the eigenvalues of (F.15)."""
        components = whole("components", self.components, 1)
        if positives is None:
            raise InputError("positives = None was given, but each point of X needs its partner.")
        device = resolve(self.device)
        partners = points(validated(self, positives, name="positives"), device)
        x = points(validated(self, X), device)
        if x.shape != partners.shape:
            raise InputError(
                f"Each point needs its partner, but X of shape {tuple(x.shape)} and positives of "
                f"shape {tuple(partners.shape)} were given."
            )
        self.kernel_, self.points_ = framed(self.kernel), torch.cat([x, partners])
        root = symmetric_root(self.kernel_(self.points_))
        swapped = root.roll(len(x), 0) / (2 * len(x))
        values, vectors = torch.linalg.eigh(root @ swapped)
        self.spectrum_ = values.flip(0)
        self._require_components(components)
        top, u = self.spectrum_[:components], vectors.flip(1)[:, :components]
        u = (
            u * u.gather(0, u.abs().argmax(0)[None]).sign()
        )  # fixes the arbitrary sign of an eigenvector
        self.weights_ = swapped @ u / top**1.5
        return self

    def transform(self, X: Any) -> Any:
        """(n, d) -> (n, components), an array or a tensor as X is."""
        return returned(self._features(X), X)

    def predict(self, X: Any) -> Any:
        """The representation, the same as `transform`: scikit-learn's name for it."""
        return self.transform(X)

    def __call__(self, X: Any, Y: Any = None) -> Any:
        """k_ss (F.19): (n, d), (m, d) -> (n, m)."""
        left = self._features(X)
        return returned(left @ (left if Y is None else self._features(Y)).T, X)

    def diagonal(self, X: Any) -> Any:
        return returned(self._features(X).square().sum(1), X)

    def jet(self, X: Any) -> Jet:
        """Its metric is (F.21), of rank `components` at most."""
        features, slopes = self._features(X), self._jacobian(X)
        drift = (slopes.mT @ features[..., None])[..., 0]
        return Jet(features.square().sum(1), drift, slopes.mT @ slopes)

    def metric(self, X: Any) -> Any:
        """(n, d) -> (n, d, d), an array or a tensor as X is."""
        slopes = self._jacobian(X)
        return returned(slopes.mT @ slopes, X)

    def volume(self, X: Any) -> Volume:
        """sqrt(det g) in logs, with the rank: fewer components than dimensions flatten the rest."""
        return volume_of_jacobian(self._jacobian(X))

    def _features(self, X: Any) -> Tensor:
        x = self._fitted_points(X)
        rows = max(1, CHUNK // len(self.points_))
        parts = [self.kernel_(some, self.points_) @ self.weights_ for some in x.split(rows)]
        return torch.cat(parts)

    def _jacobian(self, X: Any) -> Tensor:
        x = self._fitted_points(X)
        self.kernel_.require_no_kink(x, self.points_)
        return self.kernel_.gradient(x, self.points_, self.weights_)

    def _fitted_points(self, X: Any) -> Tensor:
        check_is_fitted(self)
        return points(validated(self, X, reset=False), self.points_.device)

    def _require_components(self, components: int) -> None:
        """Refuse unless so many eigenvalues are above 0, with a gap after the last of them."""
        values = self.spectrum_
        bound = len(values) * EPSILON * values.abs().max()
        if (usable := int((values > bound).sum())) < components:
            raise InputError(
                f"components = {components} was given, but only {usable} eigenvalues of (F.15) are "
                "above 0: ask for fewer components, or give more pairs."
            )
        if components < len(values):
            last, following = values[components - 1 : components + 1].tolist()
            if last - following <= TIED * last:
                raise InputError(
                    f"components = {components} was given, but it would keep one of two equal eigenvalues, "
                    f"{last:.6g} and {following:.6g}, which is no unique choice: take one more or one fewer."
                )
