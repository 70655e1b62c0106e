r"""Predictions of an ensemble of infinitely wide networks: after training, or as a Bayesian posterior.

Both predict $f(x_*) = f_0(x_*) + A\,(y - f_0(X))$ with a matrix A, so that over $f_0$ the mean is
$A y$ and the covariance that of $f_0(x_*) - A f_0(X)$. That covariance is formed as $G G^T$ with
$G = L_* - A L$ from a root $L L^T$ of the joint covariance of $f_0$, and hence has no negative
variance, however singular the kernels are.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Protocol, TypeVar

import torch
from torch import Tensor

from numeric.inputs import ArrayLike, InputError, as_numbers, positive
from numeric.kernels import Kernel
from numeric.kernels.spectrum import GramSpectrum, root

__all__ = [
    "Conditioned", "HasKernels", "HasNNGP", "OneKernel", "Prediction", "RandomInitial", "Regression",
    "ZeroInitial", "as_network", "gradient_flow", "posterior",
]  # fmt: skip

Network = TypeVar("Network", bound="HasNNGP")
BLOCK = 512  # test points whose joint covariance is held at once for standard deviations


class HasNNGP(Protocol):
    """Anything with an NNGP kernel, (n, ...), (m, ...) -> (n, m)."""

    def nngp(self, x: Tensor, y: Tensor | None = None) -> Tensor: ...


class HasKernels(HasNNGP, Protocol):
    """Anything with an NNGP and a tangent kernel, (n, ...), (m, ...) -> (n, m)."""

    def ntk(self, x: Tensor, y: Tensor | None = None) -> Tensor: ...


@dataclass(frozen=True)
class OneKernel:
    """A Kernel used as a network: both as tangent kernel of the training and as covariance of the prior."""

    kernel: Kernel

    def nngp(self, x: Tensor, y: Tensor | None = None) -> Tensor:
        return self.kernel(x, y)

    def ntk(self, x: Tensor, y: Tensor | None = None) -> Tensor:
        return self.kernel(x, y)


@dataclass(frozen=True)
class RandomInitial:
    """Training starts from a random network: f_0 is a Gaussian process with the NNGP kernel.

    >>> RandomInitial()
    RandomInitial()
    """

    def root(self, net: HasNNGP, x: Tensor) -> Tensor:
        """L with L L^T the covariance of f_0 at x."""
        return root(net.nngp(x))


@dataclass(frozen=True)
class ZeroInitial:
    """Training starts from f_0 = 0, as when the initial network is subtracted from the output.

    >>> ZeroInitial()
    ZeroInitial()
    """

    def root(self, net: HasNNGP, x: Tensor) -> Tensor:
        """L with L L^T = 0, of no columns."""
        return x.new_zeros(len(x), 0)


RANDOM = RandomInitial()


@dataclass(frozen=True, eq=False)
class Prediction:
    """A Gaussian at the test points, for every time where several were asked for.

    The covariance is shared by all outputs, which are independent. It and `std` are computed when
    first asked for; `std` alone never holds more than the covariance of a block of test points.
    """

    mean: Tensor  # (..., m, k), or (..., m) for targets of shape (n,)
    condition: float  # of the training Gram matrix with its ridge or noise
    rank: int  # number of its eigenvalues above the rounding error
    _root: Callable[[slice], Tensor] = field(repr=False)
    _blocks: tuple[slice, ...] = field(repr=False)

    @cached_property
    def covariance(self) -> Tensor:
        """(..., m, m)."""
        factor = self._root(slice(None))
        product = factor @ factor.mT
        return (product + product.mT) / 2  # not every device multiplies to a symmetric matrix

    @cached_property
    def std(self) -> Tensor:
        """(..., m)."""
        return torch.cat([self._root(rows).norm(dim=-1) for rows in self._blocks], -1)


def gradient_flow(
    net: HasKernels | Kernel,
    x_train: ArrayLike,
    y_train: ArrayLike,
    x_test: ArrayLike | None = None,
    t: float | ArrayLike = math.inf,
    ridge: float = 0.0,
    initial: RandomInitial | ZeroInitial = RANDOM,
) -> Prediction:
    r"""Networks trained for a time t, over their initialisations; at the training set if x_test is None.

    The loss is $\frac12\sum|f - y|^2 + \frac r2|\theta - \theta_0|^2$, and $\dot\theta$ is minus its
    gradient. With the tangent kernel T of the training set, $\dot f = -T(f - y) - r(f - f_0)$ there,
    and everywhere
    $f_t = f_0 + T_*\,(1 - e^{-t(T + r)})(T + r)^{-1}(y - f_0)$.

    Several t give means (len(t), m, k) for one eigendecomposition. At every finite t the flow is
    well defined however singular T is, and its limit is the least-squares fit. So a singular T is
    no error here: directions lost to rounding stay as initialised from t = 1/floor on, which for
    coincident points means fitting their average target, and a SingularGram warning says how many.

    Parameters: `net` has nngp(x, y) and ntk(x, y), as a FullyConnected has, or is a Kernel that serves as
    tangent kernel; `x_train` (n, ...), `y_train` (n,) or (n, k), `x_test` (m, ...) or None; `t` one time or
    several, at least 0 and possibly infinite; `ridge` r at least 0; `initial` says what f_0 is, and must be
    ZeroInitial() for a Kernel. Tensors share one dtype and device; arrays and lists take theirs.

    Returned is a Prediction with `mean`, and `covariance` and `std` when asked for. Other shapes, NaN and
    numbers out of range are refused.

    >>> from analytic.activations import relu
    >>> from numeric.infinite import FullyConnected
    >>> x, y = [[0.0, 1.0], [1.0, 0.0]], [1.0, -1.0]
    >>> trained = gradient_flow(FullyConnected(relu), x, y, t=[0.0, float("inf")])
    >>> trained.mean.round(decimals=6).tolist()
    [[0.0, 0.0], [1.0, -1.0]]
    """
    if not isinstance(initial, RandomInitial | ZeroInitial):
        raise InputError(f"initial must be RandomInitial() or ZeroInitial(), not {initial!r}.")
    if isinstance(net, Kernel) and isinstance(initial, RandomInitial):
        raise InputError(
            "A kernel alone does not say how networks are at the start: give initial=ZeroInitial(), or a "
            "network."
        )
    network = as_network(net, "ntk")
    data = Regression.of(x_train, y_train, x_test)
    times, ridge = _times(t, data.y), positive("ridge", ridge, zero=True)
    spectrum = GramSpectrum.of(network.ntk(data.x), ridge)
    if not spectrum.early(times).all():
        spectrum.warn("tangent kernel", "ridge")
    return data.predict(network, network.ntk, spectrum, spectrum.filters(times), initial)


def posterior(
    net: HasNNGP | Kernel,
    x_train: ArrayLike,
    y_train: ArrayLike,
    x_test: ArrayLike | None,
    noise: float,
) -> Prediction:
    r"""The Bayesian posterior of f ~ GP(0, NNGP) given $y = f + \varepsilon$; `noise` is the variance.

    Mean $K_*(K + s)^{-1} y$ and covariance $K_{**} - K_*(K + s)^{-1}K_*^T$ of f, not of y. Without
    noise and with K singular to rounding, the prior is conditioned on those components of y that K
    resolves, and a SingularGram warning says so; if the others are none that the prior could give,
    as when one point has two targets, no posterior exists and that is an InputError.

    Parameters: `net` has nngp(x, y), as a FullyConnected has, or is a Kernel; `x_train` (n, ...), `y_train`
    (n,) or (n, k), `x_test` (m, ...) or None for the training points; `noise` s at least 0. Returned is a
    Prediction. Other shapes, NaN and numbers out of range are refused.

    >>> from analytic.activations import relu
    >>> from numeric.infinite import FullyConnected
    >>> fit = posterior(FullyConnected(relu), [[0.0, 1.0], [1.0, 0.0]], [1.0, -1.0], [[1.0, 1.0]], noise=0.1)
    >>> fit.mean.shape, fit.covariance.shape
    (torch.Size([1]), torch.Size([1, 1]))
    """
    data = Regression.of(x_train, y_train, x_test)
    process = Conditioned.on(net, data, noise)
    process.spectrum.warn("NNGP kernel", "noise")
    return process.prediction


@dataclass(frozen=True, eq=False)
class Conditioned:
    """A Gaussian process given noisy targets: one eigendecomposition for any test points."""

    net: HasNNGP
    data: Regression
    noise: float
    spectrum: GramSpectrum

    @classmethod
    def on(cls, net: HasNNGP | Kernel, data: Regression, noise: float) -> Conditioned:
        """Refused are a noise below 0 and, without noise, targets that contradict each other."""
        network, noise = as_network(net, "nngp"), positive("noise", noise, zero=True)
        spectrum = GramSpectrum.of(network.nngp(data.x), noise)
        if spectrum.excludes(data.y):
            raise InputError(
                f"With noise = {noise:g} no posterior exists: the targets contradict each other in "
                f"directions that the NNGP kernel cannot tell apart ({spectrum.account}); "
                f"take noise = {spectrum.remedy:.1g} or more."
            )
        return cls(network, data, noise, spectrum)

    @property
    def weights(self) -> Tensor:
        """(K + s)^-1 y, (n, k): the mean at x_* is k(x_*, x) @ weights."""
        U, filters = self.spectrum.vectors, self.spectrum.filters(_times(math.inf, self.data.y))
        return U @ (filters[:, None] * (U.mT @ self.data.y))

    @property
    def prediction(self) -> Prediction:
        """At the test points of the data."""
        filters = self.spectrum.filters(_times(math.inf, self.data.y))
        return self.data.predict(
            self.net, self.net.nngp, self.spectrum, filters, RANDOM, self.noise
        )

    def at(self, x_test: ArrayLike) -> Prediction:
        """At other test points, (m, ...)."""
        return replace(self, data=self.data.tested(x_test)).prediction


@dataclass(frozen=True, eq=False)
class Regression:
    """Training points with targets, and the test points."""

    x: Tensor  # (n, ...)
    y: Tensor  # (n, k)
    x_test: Tensor | None  # (m, ...), or None for x itself
    shape: tuple[int, ...]  # of the outputs at one point: (k,) or ()

    @classmethod
    def of(cls, x: ArrayLike, y: ArrayLike, x_test: ArrayLike | None = None) -> Regression:
        x = _float_tensor("The training points", x)
        y = _float_tensor("The targets", y, x)
        if y.ndim not in (1, 2) or len(y) != len(x):
            raise InputError(
                f"Targets of shape {tuple(y.shape)} were given for {len(x)} training points: "
                f"they must have shape ({len(x)},) or ({len(x)}, outputs)."
            )
        return cls(x, y.reshape(len(x), -1), None, tuple(y.shape[1:])).tested(x_test)

    def tested(self, x_test: ArrayLike | None) -> Regression:
        """The same with other test points."""
        if x_test is not None:
            x_test = _float_tensor("The test points", x_test, self.x)
        return replace(self, x_test=x_test)

    def predict(
        self,
        net: HasNNGP,
        kernel: Callable[..., Tensor],
        spectrum: GramSpectrum,
        filters: Tensor,  # (..., n)
        initial: RandomInitial | ZeroInitial,
        noise: float = 0.0,
    ) -> Prediction:
        r"""$f_0(x_*) + A (y - f_0(X) - \varepsilon)$ with $A = T_* U\,\mathrm{filters}\,U^T$."""
        U = spectrum.vectors
        onto = U * spectrum.values if self.x_test is None else kernel(self.x_test, self.x) @ U
        mean = onto @ (filters[..., None] * (U.mT @ self.y))

        def factor(rows: slice) -> Tensor:
            train, test = self._roots(net, initial, rows)
            response = onto[rows] * filters[..., None, :]
            residual = test - response @ (U.mT @ train)
            return torch.cat([residual, math.sqrt(noise) * response], -1) if noise else residual

        size = max(BLOCK, len(self.x))
        blocks = tuple(slice(i, i + size) for i in range(0, len(onto), size))
        mean = mean.reshape(*mean.shape[:-1], *self.shape)
        return Prediction(mean, spectrum.condition, spectrum.rank, factor, blocks)

    def _roots(
        self, net: HasNNGP, initial: RandomInitial | ZeroInitial, rows: slice
    ) -> tuple[Tensor, Tensor]:
        """Rows of a root of the joint covariance of f_0: at the training points, and at these test points."""
        if self.x_test is None:
            whole = initial.root(net, self.x)
            return whole, whole[rows]
        whole = initial.root(net, torch.cat([self.x, self.x_test[rows]]))
        return whole[: len(self.x)], whole[len(self.x) :]


def _times(t: float | ArrayLike, like: Tensor) -> Tensor:
    times = as_numbers("t", t, "() or (times,)").to(like)
    if times.ndim > 1 or times.numel() == 0 or not (times >= 0).all():
        raise InputError(
            f"t = {t!r} was given, but a time must be at least 0, possibly infinite: "
            "give one, or a list of them."
        )
    return times


def as_network(net: Network | Kernel, kernel: str) -> Network | OneKernel:
    """The network itself, or a Kernel as `OneKernel`; refuse objects without a method `kernel`."""
    if isinstance(net, Kernel):
        return OneKernel(net)
    if isinstance(net, type) or not callable(getattr(net, kernel, None)):
        raise InputError(
            f"The network must have Gram matrices, {kernel}(x, y), as a FullyConnected has, "
            f"but {net!r} was given."
        )
    return net


def _float_tensor(name: str, values: ArrayLike, like: Tensor | None = None) -> Tensor:
    """Finite numbers, in float32 or float64, with the dtype and device of the training points."""
    tensor = as_numbers(name, values, "(n, ...)")
    if like is not None and not isinstance(values, Tensor):
        tensor = tensor.to(like)
    if tensor.dtype not in (torch.float32, torch.float64):
        raise InputError(
            f"{name} are {tensor.dtype}, but must be float32 or float64: convert them."
        )
    if like is not None and (tensor.dtype, tensor.device) != (like.dtype, like.device):
        raise InputError(
            f"{name} are {tensor.dtype} on {tensor.device}, but the training points {like.dtype} on "
            f"{like.device}: convert one of them."
        )
    if tensor.ndim == 0 or tensor.numel() == 0:
        raise InputError(
            f"{name} have shape {tuple(tensor.shape)}, but there must be at least one."
        )
    if not torch.isfinite(tensor).all():
        raise InputError(f"{name} have entries that are NaN or infinite: remove those points.")
    return tensor
