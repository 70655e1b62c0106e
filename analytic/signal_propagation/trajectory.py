"""Variances and covariance of two inputs, layer by layer, in a deep network of infinite width."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from analytic.activations.activation import Activation
from analytic.expressions.arguments import ArrayLike, InputError, finite_array, whole
from analytic.signal_propagation.exact_inputs import require_fixed_parameters

__all__ = ["Trajectory", "trajectory"]

Array = np.ndarray


@dataclass(frozen=True)
class Trajectory:
    """Preactivation variances of x and y, (depth,), and covariances, (depth, ...), layer by layer."""

    Vx: Array
    Vy: Array
    C: Array

    @property
    def correlation(self) -> Array:
        """c = C / sqrt(Vx Vy), (depth, ...)."""
        scale = np.sqrt(self.Vx * self.Vy).reshape(-1, *[1] * (self.C.ndim - 1))
        with np.errstate(invalid="ignore"):  # NaN where a variance is 0
            return self.C / scale


def trajectory(
    act: Activation, sigma: ArrayLike, zeta: ArrayLike, V0: ArrayLike, C0: ArrayLike, depth: int
) -> Trajectory:
    r"""Propagate two inputs with $|x|^2 = |y|^2$ = `V0` and $x\cdot y$ = `C0` through `depth` layers.

    The first layer has $V = \sigma^2 |x|^2 + \zeta^2$ and $C = \sigma^2 x\cdot y + \zeta^2$. In the chaotic
    phase rounding errors grow: even equal inputs end up with c < 1.

    act: an activation without open parameters.
    sigma, zeta: one number, or one for each layer, (depth,).
    V0: a squared norm, or one for each of the two inputs, (2,).
    C0: their inner product, or an array of inner products.
    depth: the number of layers.

    Returned is a `Trajectory`. Inner products above the product of the norms, and numbers out of range,
    are refused with an InputError; a variance that outgrows floats is an ArithmeticError.

    >>> from analytic.activations import relu
    >>> from analytic.signal_propagation import trajectory
    >>> two = trajectory(relu, sigma=2**0.5, zeta=0.0, V0=1.0, C0=[0.0, 0.5], depth=10)
    >>> two.C.shape, bool((two.correlation[-1] > 0.8).all())
    ((10, 2), True)
    """
    require_fixed_parameters(act)
    depth = whole("depth", depth)
    weights, biases = _layers("sigma", sigma, depth) ** 2, _layers("zeta", zeta, depth) ** 2
    norms, C = finite_array("V0", V0), finite_array("C0", C0)
    if norms.shape not in ((), (1,), (2,)):
        raise InputError(f"V0 = {V0!r} was given, but it must be one squared norm or two.")
    x, y = np.broadcast_to(norms, 2)
    if not (min(x, y) >= 0 and x + y < np.inf and (x * y * (1 + 1e-12) >= C**2).all()):
        raise InputError(
            f"V0 = {V0}, C0 = {C0} was given, but squared norms are finite and at least 0, "
            "and C0^2 is at most their product."
        )
    rows = [(weights[0] * x + biases[0], weights[0] * y + biases[0], weights[0] * C + biases[0])]
    for layer in range(1, depth):
        x, y, C = rows[-1]
        bound = np.sqrt(x) * np.sqrt(y)
        C = np.clip(C, -bound, bound)  # rounding may violate Cauchy-Schwarz by an ulp
        with np.errstate(over="ignore"):
            moments = (act.F.numpy(x), act.F.numpy(y), act.kernel.numpy(x, C, y))
        rows.append(tuple(weights[layer] * moment + biases[layer] for moment in moments))
        if not np.isfinite(rows[-1][:2]).all():
            raise ArithmeticError(
                f"The variance of {act.name} outgrows floats in layer {layer + 1}: lower sigma or depth."
            )
    return Trajectory(*(np.array(column) for column in zip(*rows, strict=True)))


def _layers(name: str, value: Any, depth: int) -> Array:
    """An array (depth,) from one number for all layers or a sequence with one for each."""
    array = finite_array(name, value)
    if array.shape not in ((), (depth,)):
        raise InputError(
            f"{name} must be one number or {depth} of them, one for each layer, but {value!r} was given."
        )
    low = array > 0 if name == "sigma" else array >= 0
    if not low.all():
        raise InputError(
            f"{name} = {value!r} was given, but {name} must be finite and "
            f"{'above 0' if name == 'sigma' else 'at least 0'}."
        )
    return np.broadcast_to(array, (depth,))
