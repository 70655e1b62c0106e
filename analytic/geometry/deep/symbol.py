"""The geometry of a deep kernel as a symbol: it stands in a Formula, and each backend computes it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import sympy as sp
from mpmath import mp

from analytic.activations.activation import Activation
from analytic.expressions.opaque import Opaque, Table
from analytic.expressions.special import volume
from analytic.expressions.twofold import Twofold
from analytic.geometry.deep.origin import where_regular
from analytic.geometry.deep.programs import Architecture, OnArrays, OnMpmath
from analytic.geometry.kernel_jet import KernelJet

__all__ = ["ActivationAtom", "DeepGeometry", "DeepRicci", "DeepVolume"]


class ActivationAtom(sp.Atom):
    """An activation as a part of an expression."""

    act: Activation

    def __new__(cls, act: Activation) -> ActivationAtom:
        self = super().__new__(cls)
        self.act = act
        return self

    def __getnewargs__(self) -> tuple[Activation]:
        return (self.act,)  # for pickle

    def _hashable_content(self) -> tuple[Any, ...]:
        return (self.act.name, self.act.phi.expr)

    def _sympystr(self, printer: Any) -> str:
        return self.act.name

    def _latex(self, printer: Any) -> str:
        return rf"\mathrm{{{self.act.name}}}".replace("_", r"\_")


class DeepGeometry(Opaque):
    """Arguments: activations, sigmas, zetas, readout (xi, or none for the NNGP), d, r, depth.

    One activation, sigma and zeta serve every layer; otherwise each layer has its own.
    """

    kind = "a recursion over layers"
    letter: str  # in print

    def __new__(
        cls, acts: Any, sigmas: Any, zetas: Any, readout: Any, *d_r_depth: Any
    ) -> DeepGeometry:
        tuples = (sp.Tuple(*part) for part in (acts, sigmas, zetas, readout))
        return super().__new__(cls, *tuples, *map(sp.sympify, d_r_depth))

    @staticmethod
    def exact(jet: KernelJet, s: Any, d: Any) -> Any:
        """The quantity on mpmath numbers."""
        raise NotImplementedError

    @staticmethod
    def array(jet: KernelJet, s: Twofold, d: Twofold) -> Any:
        """The quantity on arrays."""
        raise NotImplementedError

    @property
    def architecture(self) -> Architecture:
        acts, *scales = self.args[:4]
        return Architecture(tuple(atom.act for atom in acts), *map(len, scales))

    @property
    def parameters(self) -> tuple[sp.Symbol, ...]:
        """Open parameters of the activations."""
        return self.architecture.parameters

    @property
    def free_symbols(self) -> set[sp.Symbol]:
        return super().free_symbols | set(self.parameters)

    @property
    def inputs(self) -> tuple[sp.Expr, ...]:
        _, sigmas, zetas, readout, *d_r_depth = self.args
        return (*sigmas, *zetas, *readout, *d_r_depth, *self.parameters)

    @property
    def host(self) -> frozenset[sp.Symbol]:
        return frozenset(self.args[-1].free_symbols)

    def _eval_subs(self, old: sp.Basic, new: sp.Basic) -> DeepGeometry | None:
        """Substitute a number for a parameter in the activations; SymPy does all other cases."""
        if old not in self.parameters:
            return None
        acts = (
            ActivationAtom(atom.act.fixed(**{old.name: new}))
            if old in atom.act.parameters
            else atom
            for atom in self.args[0]
        )
        return self.func(acts, *(part.subs(old, new) for part in self.args[1:]))

    def on_mpmath(self, table: Table) -> Callable[..., Any]:
        return OnMpmath(self.architecture, self.exact, table)

    def on_arrays(self, xp: Any, table: Table) -> Callable[..., Any]:
        return OnArrays(self.architecture, self.array, xp, table)

    def _latex(self, printer: Any) -> str:
        acts, sigmas, zetas, readout, d, r, depth = self.args
        kernel = r"\Theta" if readout else "k"
        layers = ", ".join(map(printer.doprint, acts))
        scales = ", ".join(map(printer.doprint, (*sigmas, *zetas, *readout)))
        network = rf"{kernel}_{{{layers}}},\,\text{{depth }} {printer.doprint(depth)}"
        at = rf"\left|x\right|={printer.doprint(r)};\,{scales}"
        return rf"{self.letter}\left[{network},\,d={printer.doprint(d)}\right]\left({at}\right)"


class DeepRicci(DeepGeometry):
    """The Ricci scalar."""

    letter = "R"

    @staticmethod
    def exact(jet: KernelJet, s: Any, d: Any) -> Any:
        return jet.ricci(d)

    @staticmethod
    def array(jet: KernelJet, s: Twofold, d: Twofold) -> Any:
        return where_regular(jet, jet.ricci(d).high)


class DeepVolume(DeepGeometry):
    """sqrt(det g)."""

    letter = r"\sqrt{\det g}"

    @staticmethod
    def exact(jet: KernelJet, s: Any, d: Any) -> Any:
        return mp.sqrt((jet.A / s) ** d * jet.eigenvalue_ratio)

    @staticmethod
    def array(jet: KernelJet, s: Twofold, d: Twofold) -> Any:
        across, ratio, xp = (jet.A / s).high, jet.eigenvalue_ratio.high, s.xp
        return where_regular(jet, volume.array(xp, across, xp.log(across), ratio, d.high))
