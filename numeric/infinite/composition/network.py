r"""Networks of infinite width composed of layers: their kernels on signals, and their finite twins."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NoReturn

import torch
from torch import Tensor, nn

from numeric.infinite.composition import propagation
from numeric.infinite.composition.finite import Draw
from numeric.infinite.composition.gram import diagonal, matrix
from numeric.infinite.composition.layer import Layer
from numeric.infinite.composition.nonlinearity import Nonlinearity
from numeric.infinite.composition.signal import Scales, Signal
from numeric.infinite.parametrisation import NTK, Parametrisation
from numeric.inputs import (
    ArrayLike,
    InputError,
    generator_for,
    positive,
    require_float_dtype,
    require_instance,
    resolve,
    whole,
)
from numeric.kernels import Kernel
from numeric.models.memory import GIGABYTE

__all__ = ["NNGPKernel", "Network", "TangentKernel"]

DEFAULT_PARAMETRISATION = NTK()


@dataclass(frozen=True, init=False)
class Network:
    r"""Layers of infinite width, from signals (n, channels, ...) to numbers.

    Parameters: `layers` is a list of layers (Dense, Convolution, Lift, ...) and of activations of
    `analytic`; `sigma_w` and `sigma_b`, standard deviations of weights (over the root of the fan-in) and
    biases, hold for all layers that have none of their own; `parametrisation` says how fast each parameter is
    trained, NTK() or Standard(width); `memory` is a budget in bytes for covariances of pairs, beside what is
    kept of single signals; `progress` shows a bar.

    `nngp` and `ntk` are Kernels on signals, float32 or float64 on any device, without gradients by them.
    Covariances of different positions are computed only where a layer above needs them, as pooling does and
    Flatten does not. Refused are things that are no layers, and later signals that layers cannot take, which
    a message names by the position of the layer.

    >>> from analytic.activations import relu
    >>> from numeric.infinite import Convolution, Dense, GlobalPool
    >>> net = Network([Convolution(3), relu, GlobalPool(), Dense()], sigma_w=1.4, sigma_b=0.1)
    >>> images = torch.linspace(0, 1, 2 * 3 * 8 * 8, dtype=torch.float64).reshape(2, 3, 8, 8)
    >>> net.ntk(images).shape
    torch.Size([2, 2])
    """

    layers: tuple[Layer, ...]
    sigma_w: float
    sigma_b: float
    parametrisation: Parametrisation
    memory: int
    progress: bool

    def __init__(
        self,
        layers: Sequence[object],
        sigma_w: float = 1.5,
        sigma_b: float = 0.1,
        parametrisation: Parametrisation = DEFAULT_PARAMETRISATION,
        memory: int = GIGABYTE,
        progress: bool = True,
    ) -> None:
        if isinstance(layers, str) or not isinstance(layers, Sequence) or not layers:
            raise InputError(
                f"layers must be a list such as [Dense(), relu, Dense()], not {layers!r}."
            )
        if not isinstance(parametrisation, Parametrisation):
            raise InputError(
                f"parametrisation must be NTK() or Standard(width), not {parametrisation!r}."
            )
        fields = {
            "layers": propagation.as_layers(layers),
            "sigma_w": positive("sigma_w", sigma_w),
            "sigma_b": positive("sigma_b", sigma_b, zero=True),
            "parametrisation": parametrisation,
            "memory": whole("memory", memory),
            "progress": progress,
        }
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    @property
    def scales(self) -> Scales:
        return Scales(self.sigma_w, self.sigma_b, self.parametrisation)

    @property
    def nngp(self) -> NNGPKernel:
        """The covariance of outputs at initialisation, a Kernel on signals (n, channels, ...)."""
        return NNGPKernel(self)

    @property
    def ntk(self) -> TangentKernel:
        """The tangent kernel, a Kernel on signals (n, channels, ...); refused where E[phi'^2] diverges."""
        return TangentKernel(self)

    def signals(self, shape: Sequence[int]) -> tuple[Signal, ...]:
        """The shapes before each layer and after the last, for one signal of shape (channels, ...).

        Refused are shapes that a layer cannot take, named by its position, and layers that end with
        positions.

        >>> from numeric.infinite import Convolution, Flatten
        >>> [signal.space for signal in Network([Convolution(3), Flatten()]).signals((3, 8))]
        [(8,), (8,), ()]
        """
        if isinstance(shape, str) or not isinstance(shape, Sequence) or not len(shape):
            raise InputError(f"shape must be (channels, ...), such as (3, 32, 32), not {shape!r}.")
        channels, *space = (whole("shape", size) for size in shape)
        signals = propagation.signals(self.layers, Signal(tuple(space), channels))
        end = signals[-1]
        if not end.flat:
            raise InputError(
                f"The last layer leaves positions {end.space or end.over}: end with Flatten(), GlobalPool() "
                "or GroupPool()."
            )
        return signals

    def finite(
        self,
        width: int,
        seed: int = 0,
        *,
        shape: Sequence[int],
        outputs: int = 1,
        dtype: torch.dtype = torch.float64,
        device: str | torch.device = "cpu",
    ) -> nn.Sequential:
        """A random network of finite width, whose empirical kernels converge to `nngp` and `ntk`.

        Parameters: `width` channels in every layer; `shape` (channels, ...) of one signal; `outputs` of the
        last layer with weights. Returned is a module (n, channels, ...) -> (n, outputs), with one
        submodule for each layer, and parameters as the parametrisation says; where an activation follows
        the last weights, it has `width` outputs, and kernels are means over them. Refused are shapes that
        the layers cannot take.

        >>> from analytic.activations import erf
        >>> from numeric.infinite import Dense
        >>> net = Network([Dense(), erf, Dense()]).finite(16, shape=(3,))
        >>> net(torch.ones(5, 3, dtype=torch.float64)).shape
        torch.Size([5, 1])
        """
        whole("outputs", outputs)
        signal = self.signals(shape)[0]
        generator = generator_for(
            "finite network", whole("seed", seed, least=0), device=resolve(device)
        )
        draw = Draw(whole("width", width), self.scales, generator, require_float_dtype(dtype))
        return propagation.finite(self.layers, signal, shape[0], outputs, draw)


@dataclass(frozen=True)
class NNGPKernel(Kernel):
    """The covariance of a composed network's outputs at initialisation.

    Called as (n, channels, ...), (m, channels, ...) -> (n, m), with y = x where y is None. Refused are
    signals that the layers cannot take, or that are NaN, infinite, or too large for their dtype.

    >>> from analytic.activations import relu
    >>> from numeric.infinite import Dense
    >>> Network([Dense(), relu, Dense()]).nngp([[1.0, 0.0], [0.0, 1.0]]).shape
    torch.Size([2, 2])
    """

    network: Network

    def __post_init__(self) -> None:
        require_instance("network", self.network, Network, "Network([Dense()])")

    def __call__(self, x: ArrayLike, y: ArrayLike | None = None) -> Tensor:
        return matrix(self.network, x, y, tangent=False)

    def diagonal(self, x: ArrayLike) -> Tensor:
        return diagonal(self.network, x, tangent=False)

    def jet(self, x: ArrayLike) -> NoReturn:
        _refuse_jet()


@dataclass(frozen=True)
class TangentKernel(Kernel):
    """The neural tangent kernel of a composed network.

    Called as (n, channels, ...), (m, channels, ...) -> (n, m), with y = x where y is None. Refused is what
    the NNGP kernel refuses, and activations whose slope has no variance, such as a sign.

    >>> from analytic.activations import relu
    >>> from numeric.infinite import Dense
    >>> Network([Dense(), relu, Dense()]).ntk.diagonal([[1.0, 0.0], [0.0, 1.0]]).shape
    torch.Size([2])
    """

    network: Network

    def __post_init__(self) -> None:
        require_instance("network", self.network, Network, "Network([Dense()])")
        _each_activation(self.network.layers, lambda layer: layer.layer.activation.require("slope"))

    def __call__(self, x: ArrayLike, y: ArrayLike | None = None) -> Tensor:
        return matrix(self.network, x, y, tangent=True)

    def diagonal(self, x: ArrayLike) -> Tensor:
        return diagonal(self.network, x, tangent=True)

    def jet(self, x: ArrayLike) -> NoReturn:
        _refuse_jet()


def _refuse_jet() -> NoReturn:
    raise InputError(
        "Kernels of a composed Network have no metric: FullyConnected has one, and so does "
        "tangents.EmpiricalNTK(net.finite(width, shape=shape))."
    )


def _each_activation(layers: Sequence[Layer], check: Callable[[Nonlinearity], object]) -> None:
    for layer in layers:
        if isinstance(layer, Nonlinearity):
            check(layer)
        for branch in getattr(layer, "branches", ()):
            _each_activation(branch, check)
