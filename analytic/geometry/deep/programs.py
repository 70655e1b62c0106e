"""Deep geometry on the numbers of a backend: mpmath's, or arrays with twice the digits of floats."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass
from functools import lru_cache, partial
from typing import Any

import sympy as sp

from analytic.activations.activation import Activation
from analytic.expressions.expectation import Moment
from analytic.expressions.opaque import Table
from analytic.expressions.symbols import V, is_degree
from analytic.expressions.twofold import Twofold, compile_twofold
from analytic.geometry.deep.origin import LimitAtOrigin, at_origin
from analytic.geometry.deep.recursion import Layer, nngp, ntk
from analytic.geometry.kernel_jet import KernelJet, LayerMoments
from analytic.geometry.layer_moments import (
    derivative_layer_moments,
    layer_moments,
    textbook_derivative_layer_moments,
    textbook_layer_moments,
)

__all__ = ["Architecture", "CompiledLayers", "Inputs", "OnArrays", "OnMpmath"]

Quantity = Callable[
    [KernelJet, Any, Any], Any
]  # of a jet, s = |x|^2 and d: a volume or a curvature
Moments = Callable[[Activation], LayerMoments]  # as expressions in V and open parameters
CompiledMoments = Callable[..., LayerMoments]  # as a function of V and, by name, of open parameters
ONE_POINT = ("F", "G", "G2")


@dataclass(frozen=True)
class Inputs:
    """The numbers that a deep kernel and its geometry depend on; `readout` is (xi,), or () for the NNGP."""

    sigmas: Sequence[Any]
    zetas: Sequence[Any]
    readout: Sequence[Any]
    d: Any
    r: Any
    depth: Any
    degree: Any | None  # the value of the activations' open degree, if there is one
    parameters: dict[str, Any]  # the values of other open parameters


@dataclass(frozen=True)
class Architecture:
    """The layers of a network: its activations, and how many sigmas, zetas and readouts it has.

    One activation, sigma and zeta serve every layer; otherwise each layer has its own.
    """

    activations: tuple[Activation, ...]
    sigmas: int
    zetas: int
    readouts: int

    @property
    def parameters(self) -> tuple[sp.Symbol, ...]:
        """The open parameters of the activations."""
        return tuple({p.name: p for act in self.activations for p in act.parameters}.values())

    @property
    def depth_index(self) -> int:
        """Where the depth stands among the inputs: after the scales, d and r."""
        return self.sigmas + self.zetas + self.readouts + 2

    @property
    def degree_index(self) -> int | None:
        """Where an open degree stands among the inputs."""
        places = enumerate(self.parameters, self.depth_index + 1)
        return next((index for index, parameter in places if is_degree(parameter)), None)

    def inputs(self, values: Sequence[Any]) -> Inputs:
        """The values of sigmas, zetas, readouts, d, r, depth and parameters, which come in this order."""
        after_sigmas, after_zetas = self.sigmas, self.sigmas + self.zetas
        after_readouts = after_zetas + self.readouts
        d, r, depth, *rest = values[after_readouts:]
        by_symbol = dict(zip(self.parameters, rest, strict=True))
        return Inputs(
            sigmas=values[:after_sigmas],
            zetas=values[after_sigmas:after_zetas],
            readout=values[after_zetas:after_readouts],
            d=d,
            r=r,
            depth=depth,
            degree=next((value for p, value in by_symbol.items() if is_degree(p)), None),
            parameters={p.name: value for p, value in by_symbol.items() if not is_degree(p)},
        )


class CompiledLayers:
    """The layers of an architecture as functions of numbers, whose moments `table` compiles."""

    def __init__(
        self,
        architecture: Architecture,
        table: Table,
        moments: Moments,
        derivative_moments: Moments,
    ) -> None:
        self.architecture, self.table = architecture, table
        self.makers = moments, derivative_moments
        self.compiled = lru_cache(self._compiled)  # for each activation and degree

    def jet(self, layers: Sequence[Layer], inputs: Inputs, s: Any) -> KernelJet:
        """The jet of the NTK if the network has a readout, and else of the NNGP kernel."""
        return ntk(layers, s, *inputs.readout) if inputs.readout else nngp(layers, s)

    def quantity(self, quantity: Quantity, layers: Sequence[Layer], inputs: Inputs, s: Any) -> Any:
        """A volume or a curvature at |x|^2 = s."""
        return quantity(self.jet(layers, inputs, s), s, inputs.d)

    def layers(self, inputs: Inputs) -> list[Layer]:
        """Every layer of the network, with the values of its parameters filled in."""
        indices = range(len(self.architecture.activations))
        parts = (_for_each_layer(p, inputs.depth) for p in (indices, inputs.sigmas, inputs.zetas))
        layers = []
        for index, sigma, zeta in zip(*parts, strict=True):
            moments, derivative = self.compiled(index, inputs.degree)
            moments = partial(moments, **inputs.parameters)
            derivative = derivative and partial(derivative, **inputs.parameters)
            layers.append(Layer(moments, derivative, sigma, zeta))
        return layers

    def _compiled(self, index: int, degree: Any) -> tuple[CompiledMoments, CompiledMoments | None]:
        """The moments of one activation, and for the NTK of its derivative unless that is constant."""
        act = self.architecture.activations[index]
        if degree is not None:
            act = act.fixed(**{p.name: degree for p in act.parameters if is_degree(p)})
        moments, derivative = self.makers
        needed = self.architecture.readouts and act.require("G2").expr != 0
        return self._compile(act, moments), self._compile(act, derivative) if needed else None

    def _compile(self, act: Activation, maker: Moments) -> CompiledMoments:
        exprs = sp.Tuple(*map(sp.sympify, astuple(maker(act))))
        body = self.table((V, *act.parameters), exprs)
        names = [p.name for p in act.parameters]
        return lambda V, **parameters: LayerMoments(*body(V, *(parameters[n] for n in names)))


class OnMpmath:
    """A quantity of a deep kernel as a function of mpmath numbers."""

    def __init__(self, architecture: Architecture, quantity: Quantity, table: Table) -> None:
        self.architecture, self.quantity = architecture, quantity
        self.network = CompiledLayers(
            architecture, table, textbook_layer_moments, textbook_derivative_layer_moments
        )

    def __call__(self, *values: Any) -> Any:
        inputs = self.architecture.inputs(values)
        at = partial(self.network.quantity, self.quantity, self.network.layers(inputs), inputs)
        s = inputs.r**2
        return at(s) if s else at_origin(at)


class OnArrays:
    """A quantity of a deep kernel as a function of arrays of numpy or torch (`xp`)."""

    def __init__(
        self, architecture: Architecture, quantity: Quantity, xp: Any, table: Table
    ) -> None:
        self.architecture, self.quantity, self.xp = architecture, quantity, xp
        self.network = CompiledLayers(
            architecture,
            partial(compile_twofold, xp, table),
            layer_moments,
            derivative_layer_moments,
        )
        self.quadratures = any(
            part.floating.has(Moment)
            for act in architecture.activations
            for name, part in act.parts.items()
            if name in ONE_POINT
        )

    def __call__(self, *values: Any) -> Any:
        """The values may be arrays; those of a degree are taken one number after another."""
        index = self.architecture.degree_index
        if index is None:
            return self._at_one_degree(values)
        degrees, result = values[index], None
        distinct = set(degrees.reshape(-1).tolist()) if hasattr(degrees, "reshape") else {degrees}
        for degree in sorted(distinct):
            value = self._at_one_degree([*values[:index], degree, *values[index + 1 :]])
            result = value if result is None else self.xp.where(degrees == degree, value, result)
        return result

    def _at_one_degree(self, values: Sequence[Any]) -> Any:
        inputs = self.architecture.inputs(self._twofold(values))
        layers = self.network.layers(inputs)
        limit = LimitAtOrigin(layers, bool(inputs.readout), self.quadratures)
        return limit(partial(self.network.quantity, self.quantity, layers, inputs), inputs.r**2)

    def _twofold(self, values: Sequence[Any]) -> list[Any]:
        """The values as twofold numbers on one device, but depth and degree as they are."""
        plain = (self.architecture.depth_index, self.architecture.degree_index)
        like = next((v for v in values if hasattr(v, "new_tensor")), None)
        device = {} if like is None else {"device": like.device}
        return [
            value if index in plain else _to_twofold(self.xp, value, device)
            for index, value in enumerate(values)
        ]


def _to_twofold(xp: Any, value: Any, device: dict[str, Any]) -> Twofold:
    if hasattr(value, "requires_grad"):  # a tensor, whose gradient must not be cut off
        return Twofold(xp, value.to(xp.float64))
    return Twofold(xp, xp.asarray(value, dtype=xp.float64, **device))


def _for_each_layer(values: Sequence[Any], depth: Any) -> Sequence[Any]:
    """One value for each layer: a single one is repeated."""
    return list(values) * int(depth) if len(values) == 1 else values
