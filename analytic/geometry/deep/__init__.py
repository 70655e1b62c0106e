"""Deep kernels: magnification and curvature by a recursion on the jets of kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import sympy as sp

from analytic.activations.activation import Activation, require_activation
from analytic.expressions.arguments import Domain, InputError
from analytic.expressions.formula import Formula
from analytic.expressions.symbols import d, depth, r, sigma, xi, zeta
from analytic.geometry.deep.symbol import ActivationAtom, DeepGeometry, DeepRicci, DeepVolume
from analytic.geometry.layer_moments import require_finite_G2

__all__ = ["layered", "nngp_magnification", "nngp_ricci", "ntk_magnification", "ntk_ricci"]

SOURCE = "beyond Zavatone-Veth et al., who treat one hidden layer"


def nngp_magnification(act: Activation) -> Formula:
    """The magnification sqrt(det g) of the NNGP of a network whose layers are alike.

    Returned is a Formula in d, sigma, zeta, r = |x|, depth, the number of hidden layers, and the open
    parameters of the activation. What is no Activation is refused with an InputError.

    >>> from analytic import deep
    >>> from analytic.activations import erf
    >>> f = deep.nngp_magnification(erf)
    >>> round(f(d=2, sigma=1.5, zeta=0.5, r=1.0, depth=3), 6)
    0.146504
    """
    return _uniform(DeepVolume, act, "nngp.magnification", ())


def nngp_ricci(act: Activation) -> Formula:
    """The Ricci scalar of the NNGP of a network whose layers are alike.

    Returned is a Formula with the arguments of `nngp_magnification`. What is no Activation, and one that
    jumps, whose E[phi'^2] diverges, are refused with an InputError.

    >>> from analytic import deep, nngp
    >>> from analytic.activations import erf
    >>> at = {"d": 3, "sigma": 1, "zeta": "1/2", "r": 2}
    >>> print(deep.nngp_ricci(erf).evaluate(12, depth=1, **at))  # that of one hidden layer
    -13.5902299968
    >>> print(nngp.ricci(erf).evaluate(12, **at))
    -13.5902299968
    """
    return _uniform(DeepRicci, act, "nngp.ricci", ())


def ntk_magnification(act: Activation) -> Formula:
    """The magnification sqrt(det g) of the NTK of a network whose layers are alike.

    Returned is a Formula in d, sigma, zeta, xi, r = |x|, depth and the open parameters. An activation whose
    slope jumps has no such metric, and is refused with an InputError.

    >>> from analytic import deep
    >>> from analytic.activations import erf
    >>> deep.ntk_magnification(erf).args
    (d, sigma, zeta, xi, r, depth)
    """
    return _uniform(DeepVolume, act, "ntk.magnification", (xi,))


def ntk_ricci(act: Activation) -> Formula:
    """The Ricci scalar of the NTK of a network whose layers are alike.

    Returned is a Formula with the arguments of `ntk_magnification`. What is no Activation, and one whose
    slope jumps, which has no such metric, are refused with an InputError.

    >>> from analytic import deep
    >>> from analytic.activations import gaussian
    >>> deep.ntk_ricci(gaussian)(d=2, sigma=1.0, zeta=0.5, xi=1.0, r=[0.5, 1.0], depth=2).shape
    (2,)
    """
    return _uniform(DeepRicci, act, "ntk.ricci", (xi,))


def layered(acts: Sequence[Activation], ntk: bool = False) -> tuple[Formula, Formula]:
    """Magnification and Ricci scalar where each layer has its own activation, sigma_l and zeta_l.

    acts: one activation for each hidden layer, without open parameters.
    ntk: whether of the tangent kernel, which has the argument xi too, instead of the NNGP.

    Returned are two Formulas in d, sigma_1, ..., zeta_1, ..., and r = |x|. What is no list of such
    activations is refused with an InputError.

    >>> from analytic import deep
    >>> from analytic.activations import erf, gaussian
    >>> magnification, ricci = deep.layered([erf, gaussian])
    >>> ricci.args
    (d, sigma_1, sigma_2, zeta_1, zeta_2, r)
    """
    listed = isinstance(acts, Sequence) and all(isinstance(act, Activation) for act in acts)
    if not listed or not acts or any(act.parameters for act in acts):
        raise InputError(
            f"layered needs a list of activations, each with its parameters fixed, not {acts!r}."
        )
    count = range(1, len(acts) + 1)
    sigmas = tuple(sp.Symbol(f"sigma_{l}", positive=True) for l in count)
    zetas = tuple(sp.Symbol(f"zeta_{l}", nonnegative=True) for l in count)
    readout = (xi,) if ntk else ()
    args = (d, *sigmas, *zetas, *readout, r)
    domain = _domain(acts, ntk)
    name = "deep." + "-".join(act.name for act in acts)

    def formula(node: type[DeepGeometry], what: str) -> Formula:
        expr = node(map(ActivationAtom, acts), sigmas, zetas, readout, d, r, len(acts))
        return Formula(f"{name}.{what}", args, expr, domain, SOURCE)

    kind = "ntk" if ntk else "nngp"
    return formula(DeepVolume, f"{kind}.magnification"), formula(DeepRicci, f"{kind}.ricci")


def _uniform(
    node: type[DeepGeometry], act: Activation, what: str, readout: tuple[sp.Symbol, ...]
) -> Formula:
    require_activation(act)
    expr = node((ActivationAtom(act),), (sigma,), (zeta,), readout, d, r, depth)
    args = (d, sigma, zeta, *readout, r, depth, *act.parameters)
    return Formula(f"deep.{act.name}.{what}", args, expr, _domain((act,), bool(readout)), SOURCE)


def _domain(acts: Sequence[Activation], ntk: bool) -> Domain:
    domains = [(require_finite_G2(act) if ntk else act.require("G")).domain for act in acts]
    conditions = tuple(condition for domain in domains for condition in domain.conditions)
    return replace(domains[0], conditions=conditions)
