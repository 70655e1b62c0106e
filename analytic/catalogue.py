"""Every closed form by its dotted name; a formula is derived when it is first asked for."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from importlib import import_module

from analytic.activations.activation import Activation
from analytic.expressions.arguments import InputError
from analytic.expressions.formula import Formula
from analytic.geometry import deep, nngp, ntk


class UnknownName(InputError, KeyError):
    """A name that the catalogue does not hold, told with its nearest ones."""

    def __str__(self) -> str:
        return str(self.args[0])


class Catalogue(Mapping[str, Formula]):
    """A read-only mapping from name to Formula that derives each on first use."""

    def __init__(self, recipes: Mapping[str, Callable[[], Formula]]) -> None:
        self._recipes = dict(recipes)
        self._made: dict[str, Formula] = {}

    def __getitem__(self, name: str) -> Formula:
        if name not in self._recipes:
            near = difflib.get_close_matches(str(name), self._recipes, n=3, cutoff=0.3)
            hint = f": did you mean {' or '.join(near)}?" if near else "."
            raise UnknownName(
                f"The catalogue has no {name!r}{hint} `python -m analytic list` shows all."
            )
        if name not in self._made:
            self._made[name] = self._recipes[name]()
        return self._made[name]

    def __contains__(self, name: object) -> bool:
        return name in self._recipes

    def __iter__(self) -> Iterator[str]:
        return iter(self._recipes)

    def __len__(self) -> int:
        return len(self._recipes)

    def __repr__(self) -> str:
        return f"Catalogue({len(self)} formulas)"


ACTIVATIONS = (
    "erf", "monomial", "relu_power", "sine", "cosine", "exponential", "gaussian", "gelu", "elu", "snake",
)  # fmt: skip
NNGP = (
    nngp.kernel, nngp.slope, nngp.omega, nngp.tangential, nngp.radial, nngp.magnification, nngp.ricci,
)  # fmt: skip


def _derive(derivation: Callable[[Activation], Formula], name: str) -> Formula:
    from analytic import activations  # half a second of SymPy, which not every import needs

    return derivation(activations.ACTIVATIONS[name])


NTK = (ntk.kernel, ntk.magnification, ntk.ricci, ntk.origin)
DEEP = {
    "nngp.magnification": deep.nngp_magnification,
    "nngp.ricci": deep.nngp_ricci,
    "ntk.magnification": deep.ntk_magnification,
    "ntk.ricci": deep.ntk_ricci,
}

OF_ACTIVATIONS = {
    name: partial(_derive, derivation, act)
    for act in ACTIVATIONS
    for name, derivation in (
        *((f"nngp.{act}.{one.__name__}", one) for one in NNGP),
        *((f"ntk.{act}.{one.__name__}", one) for one in NTK),
        *((f"deep.{act}.{what}", one) for what, one in DEEP.items()),
    )
}


def _attribute(module: str, name: str) -> Formula:
    """A formula of a module that is imported when it is first asked for."""
    return getattr(import_module(module), name)


def _spline(init: str, what: str) -> Formula:
    from analytic.splines import INITIALISATIONS

    return getattr(INITIALISATIONS[init], what)


ERF3 = {
    f"erf3.{name}": partial(_attribute, "analytic.finite.erf3", name)
    for name in ("magnification", "ricci")
}
PERTURBATION = {
    f"perturbation.{name}": partial(_attribute, "analytic.perturbation", name)
    for name in ("chi", "fluctuation", "magnification")
}
SPLINES = {
    f"spline.{init}.{what}": partial(_spline, init, what)
    for init in ("signs", "uniform", "gaussian", "onesided")
    for what in ("rf", "both", "ntk", "slope", "density", "knots")
}
RELU = {
    f"relu.{name}": partial(_attribute, "analytic.relu_dynamics.metric", name)
    for name in ("c_squared", "radial_rate", "angular_rate")
}

catalogue = Catalogue(OF_ACTIVATIONS | ERF3 | PERTURBATION | SPLINES | RELU)
