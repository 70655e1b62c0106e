"""A distribution of hidden units with numerical values for its parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from analytic.expressions.arguments import exact
from analytic.splines import Initialisation
from numeric.inputs import InputError
from numeric.splines.weights import Hats, hats

__all__ = ["FilledLaw", "filled", "parameters"]

Array = NDArray[np.float64]
FAR = 1e150  # stands for infinity: beyond every knot


@dataclass(frozen=True)
class FilledLaw:
    """A law with values: `slopes` and `biases` are E[a^2] and E[b^2]; `clamped` if no unit
    is active to the left of 0.
    """

    initialisation: Initialisation
    values: Mapping[str, float]
    slopes: float
    biases: float
    clamped: bool
    hats: Callable[[Array, Array], Hats] = field(repr=False)

    def density(self, u: Array) -> Array:
        return self.initialisation.density.numpy(u=u, **self.values)

    def passed(self, x: Array) -> Array:
        """The fraction of knots below x."""
        share = self.initialisation.both.numpy(x=np.asarray(x, float), y=FAR, **self.values)
        return share if self.clamped else 2 * share

    def kernel(self, x: Array, y: Array, readout: float) -> Array:
        """The tangent kernel: that of random features, if the readout is 0."""
        return self.initialisation.ntk.numpy(x=x, y=y, **self.values, ec2=readout)

    def gram(self, x: Array, readout: float) -> Array:
        return self.kernel(x[:, None], x[None], readout)

    @property
    def edges(self) -> list[float]:
        """Where the density of knots is not smooth."""
        numbers = {symbol: self.values[symbol.name] for symbol in self.initialisation.parameters}
        ends = [end for one in self.initialisation.knot_intervals for end in (one.low, one.high)]
        return sorted({float(end.subs(numbers)) for end in ends if end.is_finite})

    @property
    def scale(self) -> float:
        """The size of a typical knot."""
        return (self.biases / self.slopes) ** 0.5


def filled(init: Initialisation, values: Mapping[str, float]) -> FilledLaw:
    """A law with these values of its parameters, each in its range."""
    values = parameters(init, values)
    numbers = {symbol: values[symbol.name] for symbol in init.parameters}
    slopes, biases = (float(e.subs(numbers)) for e in (init.slopes, init.biases))
    clamped = bool(init.both.numpy(x=-1.0, y=-1.0, **values) == 0)
    return FilledLaw(init, values, slopes, biases, clamped, hats(init, values))


def parameters(init: Initialisation, values: Mapping[str, float]) -> dict[str, float]:
    """The values of a law's parameters as floats; missing, surplus and impossible ones are refused.

    >>> from analytic.splines import INITIALISATIONS
    >>> parameters(INITIALISATIONS["signs"], {"B": 2})
    {'B': 2.0}
    """
    if not isinstance(init, Initialisation):
        raise InputError(f"initialisation must be one of analytic.splines, not {init!r}.")
    names = [symbol.name for symbol in init.parameters]
    if not isinstance(values, Mapping):
        raise InputError(f"values must be a dictionary of numbers for {names}, not {values!r}.")
    if set(values) != set(names):
        raise InputError(f"{init.name} needs values for {names}, but {[*values]} were given.")
    return {symbol.name: float(exact(symbol, values[symbol.name])) for symbol in init.parameters}
