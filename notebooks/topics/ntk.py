"""Shallow NTK geometry beside that of the NNGP: closed forms, random networks, and both along a ray."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from analytic.catalogue import catalogue
from analytic.expressions.arguments import InputError
from notebooks.topics.nngp import RADII, catalogue_parameters
from notebooks.topics.statistics import Array, WidthCurves

if TYPE_CHECKING:
    from numeric.experiments.width import Convergence

KERNELS = {"nngp": "NNGP", "ntk": "NTK"}
QUANTITIES = ("magnification", "ricci")
# Dense where curvature turns, |x| = 1 among them, but not 0, which zeta = 0 makes singular.
NEAR = np.concatenate([np.geomspace(0.05, 1, 40), np.geomspace(1, 5, 21)[1:]])
Values = Mapping[str, Any]
Key = tuple[str, str, str]  # kernel, label of the activation, quantity


def closed_form(kernel: str, activation: str, quantity: str, **values: Any) -> Any:
    """A closed form of the catalogue in floats, which takes of the values those that it has."""
    formula = catalogue[f"{kernel}.{activation}.{quantity}"]
    return formula.numpy(**{symbol.name: values[symbol.name] for symbol in formula.args})


def log_volume(kernel: str, activation: str, d: int, **values: Any) -> Any:
    r"""$\log_{10}\sqrt{\det g}$ of $g = aI + b\,xx^T$ from those of d = 1 and 2.

    $\det g = a^{d-1}(a + b|x|^2)$ leaves the floats in high dimension, and its logarithm does not.
    """
    return log_volume_in_dimension(
        partial(closed_form, kernel, activation, "magnification"), d, **values
    )


def log_volume_in_dimension(volume: Callable[..., Any], d: int, r: Any, **values: Any) -> Any:
    """The logarithm of a volume, which is linear in d, from d = 1 and d = 2 at once."""
    one, two = np.log10(volume(d=np.array([[1], [2]]), r=np.atleast_1d(r), **values))
    line = one + (d - 1) * (two - one)
    return line if np.ndim(r) else line[0]


def ricci(kernel: str, activation: str, **values: Any) -> Any:
    return closed_form(kernel, activation, "ricci", **values)


@dataclass(frozen=True)
class ShownActivation:
    """An activation of the figures: its name in the catalogue, its label and its parameters."""

    activation: str
    label: str
    parameters: Mapping[str, float] = field(default_factory=dict)

    def closed_form(self, kernel: str, quantity: str, **values: Any) -> Any:
        return closed_form(kernel, self.activation, quantity, **values, **self.parameters)


def shown(activation: str = "erf", q: int = 2) -> tuple[ShownActivation, ...]:
    """Three activations for the figures: one of them chosen, and monomials from degree q on."""
    powers = [ShownActivation("monomial", f"monomial, q = {k}", {"q": k}) for k in range(q, q + 3)]
    if activation == "monomial":
        return tuple(powers)
    return ShownActivation(activation, activation, catalogue_parameters(activation, q)), *powers[:2]


SHOWN = shown()


@dataclass(frozen=True, eq=False)
class GeometryAlongRay:
    """Both geometries of the activations shown, and what another route computes at a few radii."""

    radii: Array
    closed_form: Mapping[Key, Array]
    check_radii: Array
    checks: Mapping[Key, Array]


def geometry_along_ray(
    check_radii: Sequence[float],
    checks: Mapping[Key, Array],
    values: Values,
    activations: Sequence[ShownActivation] = SHOWN,
) -> GeometryAlongRay:
    radii = (
        RADII if values["zeta"] else RADII[1:]
    )  # without biases a metric may vanish at the origin
    curves = {
        (kernel, one.label, what): one.closed_form(kernel, what, r=radii, **values)
        for kernel in KERNELS
        for one in activations
        for what in QUANTITIES
    }
    return GeometryAlongRay(radii, curves, np.asarray(check_radii, float), checks)


@dataclass(frozen=True, eq=False)
class TangentNetworks:
    """A quantity of the tangent metric of random networks, and both kernels at infinite width."""

    radii: Array
    nngp: Array
    ntk: Array
    networks: WidthCurves


def tangent_networks(
    sweeps: Mapping[str, Mapping[str, Convergence]],
    values: Values,
    activations: Sequence[ShownActivation] = SHOWN,
) -> dict[str, dict[str, TangentNetworks]]:
    """By label of the activation and by quantity."""
    by_label = {one.label: one for one in activations}
    radii = RADII if values["zeta"] else RADII[1:]
    return {
        label: {
            what: TangentNetworks(
                radii,
                *(by_label[label].closed_form(k, what, r=radii, **values) for k in KERNELS),
                WidthCurves.of(quantity),
            )
            for what, quantity in quantities.items()
        }
        for label, quantities in sweeps.items()
    }


@dataclass(frozen=True, eq=False)
class KernelRay:
    """The geometry of one kernel along a ray and at |x| = 1; NaN with the reason where it has none."""

    log_volume: Array  # log10 sqrt(det g)
    ricci: Array
    log_volume_at_one: float
    ricci_at_one: float
    refusal: str = ""

    @classmethod
    def of(cls, radii: Array, log_volume: Array, ricci: Array) -> KernelRay:
        at_one = (float(values[radii == 1].item()) for values in (log_volume, ricci))
        return cls(log_volume, ricci, *at_one)


@dataclass(frozen=True, eq=False)
class BothRays:
    """NNGP and NTK along a ray, and the curvature of the NTK at the origin where it exists."""

    radii: Array
    kernels: Mapping[str, KernelRay]  # by the kernel's name
    ricci_at_origin: float | None


def both_rays(activation: str, sigma: float, zeta: float, xi: float, q: int, d: int) -> BothRays:
    values = {"d": d, "sigma": sigma, "zeta": zeta, "xi": xi, **catalogue_parameters(activation, q)}
    rays = {}
    for kernel, name in KERNELS.items():
        try:
            curves = [f(kernel, activation, r=NEAR, **values) for f in (log_volume, ricci)]
            rays[name] = KernelRay.of(NEAR, *curves)
        except InputError as refusal:  # a rectified power may be too steep for gradients
            nothing = np.full_like(NEAR, np.nan)
            rays[name] = KernelRay(nothing, nothing, np.nan, np.nan, str(refusal))
    return BothRays(NEAR, rays, _ricci_at_origin(activation, values))


def _ricci_at_origin(activation: str, values: Values) -> float | None:
    formula = catalogue[f"ntk.{activation}.origin"]
    try:
        return float(formula.evaluate(12, **{s.name: values[s.name] for s in formula.args})) + 0.0
    except InputError:
        return None
