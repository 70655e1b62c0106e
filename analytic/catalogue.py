"""Every closed form by its dotted name, such as `nngp.erf.ricci`; each is derived on first use."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from importlib import import_module

from analytic.activations.activation import Activation
from analytic.expressions.arguments import InputError
from analytic.expressions.formula import Formula
from analytic.geometry import deep, nngp, ntk

__all__ = ["ACTIVATIONS", "Catalogue", "UnknownName", "catalogue"]


class UnknownName(InputError, KeyError):
    """A name that is not in the catalogue; the message suggests the most similar ones."""

    def __str__(self) -> str:
        return str(self.args[0])


class Catalogue(Mapping[str, Formula]):
    """A read-only mapping from name to Formula that derives each formula on first use.

    A name that is not in it is refused with an `UnknownName`, an InputError and a KeyError, which suggests
    similar ones. `list(catalogue)` names all; a prompt completes `catalogue["nngp.g`.

    >>> from analytic import catalogue
    >>> catalogue["nngp.erf.kernel"].args
    (kxx, kxy, kyy)
    >>> [name for name in catalogue if name.startswith("perturbation")]
    ['perturbation.chi', 'perturbation.fluctuation', 'perturbation.magnification']
    """

    def __init__(self, recipes: Mapping[str, Callable[[], Formula]]) -> None:
        self._recipes = dict(recipes)
        self._derived: dict[str, Formula] = {}

    def __getitem__(self, name: str) -> Formula:
        if name not in self:
            near = difflib.get_close_matches(str(name), self._recipes, n=3, cutoff=0.3)
            hint = f": did you mean {' or '.join(near)}?" if near else "."
            raise UnknownName(
                f"The catalogue has no {name!r}{hint} `python -m analytic list` shows all."
            )
        if name not in self._derived:
            self._derived[name] = self._recipes[name]()
        return self._derived[name]

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self._recipes

    def __iter__(self) -> Iterator[str]:
        return iter(self._recipes)

    def __len__(self) -> int:
        return len(self._recipes)

    def __repr__(self) -> str:
        return f"Catalogue({len(self)} formulas)"

    def _ipython_key_completions_(self) -> list[str]:
        """The names that IPython and Jupyter offer after `catalogue["` and Tab."""
        return list(self)


ACTIVATIONS = (
    "erf", "monomial", "relu_power", "sine", "cosine", "exponential", "gaussian", "gelu", "elu", "snake",
)  # fmt: skip
NNGP = (
    nngp.kernel, nngp.slope, nngp.omega, nngp.tangential, nngp.radial, nngp.magnification, nngp.ricci,
)  # fmt: skip


NTK_METRIC = (ntk.magnification, ntk.ricci, ntk.origin)  # need a finite E[phi''^2]
DEEP_NNGP = {"magnification": deep.nngp_magnification, "ricci": deep.nngp_ricci}
DEEP_NTK = {"magnification": deep.ntk_magnification, "ricci": deep.ntk_ricci}


def _derive(derivation: Callable[[Activation], Formula], name: str) -> Formula:
    from analytic import activations  # takes half a second of SymPy: only when needed

    act = activations.relu if name == "relu" else activations.ACTIVATIONS[name]
    return derivation(act)


def _of(act: str, ntk_metric: bool = True) -> dict[str, Callable[[], Formula]]:
    """How to derive every formula of one activation, with or without those of its NTK metric."""
    tangent, deep_tangent = (NTK_METRIC, DEEP_NTK) if ntk_metric else ((), {})
    derivations = {
        **{f"nngp.{act}.{one.__name__}": one for one in NNGP},
        **{f"ntk.{act}.{one.__name__}": one for one in (ntk.kernel, *tangent)},
        **{f"deep.{act}.nngp.{what}": one for what, one in DEEP_NNGP.items()},
        **{f"deep.{act}.ntk.{what}": one for what, one in deep_tangent.items()},
    }
    return {name: partial(_derive, derivation, act) for name, derivation in derivations.items()}


OF_ACTIVATIONS = {name: recipe for act in ACTIVATIONS for name, recipe in _of(act).items()}
OF_RELU = _of("relu", ntk_metric=False)  # its phi' jumps: E[phi''^2] diverges


def _attribute(module: str, name: str) -> Formula:
    """A formula of a module that is imported on first use."""
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
    for what in ("rf", "both", "ntk", "slope", "drift", "metric", "density", "knots")
}
RELU_DYNAMICS = {
    f"relu.{name}": partial(_attribute, "analytic.relu_dynamics.metric", name)
    for name in ("c_squared", "radial_rate", "angular_rate")
}

catalogue = Catalogue(OF_ACTIVATIONS | OF_RELU | ERF3 | PERTURBATION | SPLINES | RELU_DYNAMICS)
