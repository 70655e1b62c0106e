r"""The self-supervised kernel of Simon et al.: the representation that positive pairs agree on (F.12)-(F.21).

(F.14) is $Z = KSK/2p$ with S the swap of each point and its partner, so (F.15) is
$K_\Gamma = K^{1/2}SK^{1/2}/2p$ without an inverse, and for an eigenvector u of eigenvalue $\gamma$
$K^{-1/2}u = SK^{1/2}u/(2p\gamma)$ up to a null vector of K, which no kernel value sees.
"""

from __future__ import annotations

import torch
from sklearn.base import BaseEstimator, TransformerMixin
from torch import Tensor

from numeric.inputs import ArrayLike, InputError, points, resolve, whole
from numeric.kernels import Jet, Kernel
from numeric.kernels.two_point import EPSILON, Volume, symmetric_root, volume_of_jacobian
from numeric.learned.estimator_inputs import (
    Array,
    as_input_type,
    fitted_points,
    gram_in_chunks,
    validated,
)
from numeric.learned.kernels import Base, Mahalanobis, as_mahalanobis, like_input

__all__ = ["SelfSupervisedKernel"]

TIED = 1e-9  # relative gap below which two eigenvalues count as one


class SelfSupervisedKernel(TransformerMixin, BaseEstimator, Kernel):
    """Features f with k_ss(x, y) = f(x).f(y); over the pairs, the symmetrised mean of f(x) f(x')^T is 1.

    `kernel` is the kernel that features are functions of, Gaussian(1.0) by default; `components` is the
    number of features. `fit` takes points and their partners, and leaves `spectrum_`, the eigenvalues of
    (F.15), and `weights_`. As a transformer it returns arrays for arrays; as a Kernel it returns tensors.
    Refused are more components than there are eigenvalues above 0, and a choice between equal eigenvalues.

    >>> x = [[0.0, 1.0], [1.0, 0.0], [2.0, 5.0], [3.0, 1.0]]
    >>> kernel = SelfSupervisedKernel(components=2, device="cpu").fit(x, [[a + 0.1, b] for a, b in x])
    >>> kernel.transform(x).shape, kernel(x).shape
    ((4, 2), torch.Size([4, 4]))
    """

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

    def fit(self, X: ArrayLike, positives: ArrayLike) -> SelfSupervisedKernel:
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
        self.kernel_, self.points_ = as_mahalanobis(self.kernel), torch.cat([x, partners])
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

    def transform(self, X: ArrayLike) -> Array:
        """(n, d) -> (n, components), an array or a tensor as X is."""
        return as_input_type(self._features(X), X)

    def predict(self, X: ArrayLike) -> Array:
        """The representation, the same as `transform`: scikit-learn's name for it."""
        return self.transform(X)

    def __call__(self, x: ArrayLike, y: ArrayLike | None = None) -> Tensor:
        """k_ss (F.19): (n, d), (m, d) -> (n, m)."""
        left = self._features(x)
        return like_input(left @ (left if y is None else self._features(y)).T, x)

    def diagonal(self, x: ArrayLike) -> Tensor:
        """|f(x)|^2, (n, d) -> (n,)."""
        return like_input(self._features(x).square().sum(1), x)

    def jet(self, x: ArrayLike) -> Jet:
        """Its metric is (F.21), of rank `components` at most; refused at a cone of the kernel."""
        features, slopes = self._features(x), self._jacobian(x)
        drift = (slopes.mT @ features[..., None])[..., 0]
        parts = features.square().sum(1), drift, slopes.mT @ slopes
        return Jet(*(like_input(part, x) for part in parts))

    def volume(self, x: ArrayLike) -> Volume:
        """sqrt(det g) in logs, with the rank: fewer components than dimensions flatten the rest."""
        return volume_of_jacobian(self._jacobian(x))

    def _features(self, x: ArrayLike) -> Tensor:
        at = fitted_points(self, x)
        return gram_in_chunks(self.kernel_, at, self.points_, self.weights_)

    def _jacobian(self, x: ArrayLike) -> Tensor:
        at = fitted_points(self, x)
        self.kernel_.require_no_kink(at, self.points_)
        return self.kernel_.gradient(at, self.points_, self.weights_)

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
