"""The geometry of a deep kernel as a symbol: it stands in a Formula, and each backend computes it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import astuple
from functools import lru_cache, partial
from typing import Any

import sympy as sp
from mpmath import mp

from analytic.activations.activation import Activation
from analytic.expressions.expectation import Moment
from analytic.expressions.opaque import Computed, Table
from analytic.expressions.special import volume
from analytic.expressions.symbols import V
from analytic.expressions.twofold import Twofold, compile_twofold
from analytic.geometry.deep.origin import at_origin, where_regular, with_origin
from analytic.geometry.deep.recursion import Layer, nngp, ntk
from analytic.geometry.kernel_jet import Germ, Passage
from analytic.geometry.layer_moments import derived_passage, derived_textbook, passage, textbook

Maker = Callable[[Activation], Passage]
MOMENTS = ("F", "G", "G2")


class Activated(sp.Atom):
    """An activation as a part of an expression."""

    act: Activation

    def __new__(cls, act: Activation) -> Activated:
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


class Deep(Computed):
    """Arguments: activations, sigmas, zetas, readout (xi, or none for the NNGP), d, r, depth.

    One activation, sigma and zeta serve every layer; otherwise each layer has its own.
    """

    def __new__(cls, acts: Any, sigmas: Any, zetas: Any, readout: Any, *rest: Any) -> Deep:
        tuples = (sp.Tuple(*part) for part in (acts, sigmas, zetas, readout))
        return super().__new__(cls, *tuples, *map(sp.sympify, rest))

    @property
    def parameters(self) -> tuple[sp.Symbol, ...]:
        """Open parameters of the activations."""
        return tuple({p.name: p for atom in self.args[0] for p in atom.act.parameters}.values())

    @property
    def free_symbols(self) -> set[sp.Symbol]:
        return super().free_symbols | set(self.parameters)

    @property
    def inputs(self) -> tuple[sp.Expr, ...]:
        _, sigmas, zetas, readout, *rest = self.args
        return (*sigmas, *zetas, *readout, *rest, *self.parameters)

    def _eval_subs(self, old: sp.Basic, new: sp.Basic) -> Deep | None:
        """A number for a parameter goes into the activations."""
        if old not in self.parameters:
            return None
        acts = (
            Activated(atom.act.fixed(**{old.name: new})) if old in atom.act.parameters else atom
            for atom in self.args[0]
        )
        rest = (arg.subs(old, new) for arg in self.args[4:])
        return self.func(acts, *(part.subs(old, new) for part in self.args[1:4]), *rest)

    @property
    def host(self) -> frozenset[sp.Symbol]:
        return frozenset(self.args[-1].free_symbols)

    def on_mpmath(self, table: Table) -> Callable[..., Any]:
        def finish(germ: Callable[[Any], Germ], s: Any, d: Any, layers: Sequence[Layer]) -> Any:
            def at(s: Any) -> Any:
                return self.read(germ(s), s, d)

            return at(s) if s else at_origin(at)

        return self._program(table, (textbook, derived_textbook), finish)

    def on_arrays(self, xp: Any, table: Table) -> Callable[..., Any]:
        moments = (
            part
            for atom in self.args[0]
            for name, part in atom.act.parts.items()
            if name in MOMENTS
        )
        rough = any(part.floating.has(Moment) for part in moments)

        def finish(germ: Callable[[Any], Germ], s: Any, d: Any, layers: Sequence[Layer]) -> Any:
            def at(s: Any) -> Any:
                return self.read_floats(germ(s), s, d)

            return with_origin(at, s, layers, bool(self.args[3]), rough)

        run = self._program(partial(compile_twofold, xp, table), (passage, derived_passage), finish)
        depth = len(self.inputs) - len(self.parameters) - 1
        degree = next((depth + k for k, p in enumerate(self.parameters, 1) if p.name == "q"), None)

        def one(values: Sequence[Any]) -> Any:
            """Depth and degree are plain numbers."""
            like = next((v for v in values if hasattr(v, "new_tensor")), None)
            where = {} if like is None else {"device": like.device}
            host = (depth, degree)
            return run(*(v if k in host else _lifted(xp, v, where) for k, v in enumerate(values)))

        def call(*values: Any) -> Any:
            if degree is None:
                return one(values)
            q, found = values[degree], None
            for number in sorted(set(q.reshape(-1).tolist()) if hasattr(q, "reshape") else {q}):
                value = one([*values[:degree], number, *values[degree + 1 :]])
                found = value if found is None else xp.where(q == number, value, found)
            return found

        return call

    def _program(
        self,
        table: Table,
        makers: tuple[Maker, Maker],
        finish: Callable[[Callable[[Any], Germ], Any, Any, Sequence[Layer]], Any],
    ) -> Callable[..., Any]:
        acts, *counts = ([atom.act for atom in self.args[0]], *map(len, self.args[1:4]))

        @lru_cache
        def compiled(index: int, q: Any) -> tuple[Callable[..., Passage] | None, ...]:
            act = acts[index] if q is None else acts[index].fixed(q=q)
            plain, derived = makers
            bent = self.args[3] and act.require("G2").expr != 0
            return _callable(table, act, plain), _callable(table, act, derived) if bent else None

        def run(*values: Any) -> Any:
            sigmas, zetas, readout, (d, r, depth, *rest) = _cut(values, counts)
            open_ = dict(zip((p.name for p in self.parameters), rest, strict=True))
            q = open_.pop("q", None)
            parts = (range(len(acts)), sigmas, zetas)
            layers = [
                Layer(*(part and _filled(part, open_) for part in compiled(index, q)), sigma, zeta)
                for index, sigma, zeta in zip(*(_each(p, depth) for p in parts), strict=True)
            ]

            def germ(s: Any) -> Germ:
                return ntk(layers, s, *readout) if readout else nngp(layers, s)

            return finish(germ, r**2, d, layers)

        return run

    letter: str  # in print

    def _latex(self, printer: Any) -> str:
        acts, sigmas, zetas, readout, d, r, depth = self.args
        kernel = r"\Theta" if readout else "k"
        layers = ", ".join(map(printer.doprint, acts))
        scales = ", ".join(map(printer.doprint, (*sigmas, *zetas, *readout)))
        below, above = rf"\text{{depth }} {printer.doprint(depth)}", rf"d={printer.doprint(d)}"
        at = rf"\left|x\right|={printer.doprint(r)};\,{scales}"
        return (
            rf"{self.letter}\left[{kernel}_{{{layers}}},\,{below},\,{above}\right]\left({at}\right)"
        )

    @staticmethod
    def read(germ: Germ, s: Any, d: Any) -> Any:
        """What is asked of the germ, on mpmath numbers."""
        raise NotImplementedError

    @staticmethod
    def read_floats(germ: Germ, s: Twofold, d: Twofold) -> Any:
        """The same on arrays."""
        raise NotImplementedError


class deep_ricci(Deep):
    """The Ricci scalar."""

    letter = "R"

    @staticmethod
    def read(germ: Germ, s: Any, d: Any) -> Any:
        return germ.ricci(d)

    @staticmethod
    def read_floats(germ: Germ, s: Twofold, d: Twofold) -> Any:
        return where_regular(germ, germ.ricci(d).high)


class deep_volume(Deep):
    """sqrt(det g)."""

    letter = r"\sqrt{\det g}"

    @staticmethod
    def read(germ: Germ, s: Any, d: Any) -> Any:
        return mp.sqrt((germ.A / s) ** d * germ.stretch)

    @staticmethod
    def read_floats(germ: Germ, s: Twofold, d: Twofold) -> Any:
        across, along, xp = (germ.A / s).high, germ.stretch.high, s.xp
        return where_regular(germ, volume.array(xp, across, xp.log(across), along, d.high))


def _callable(table: Table, act: Activation, maker: Maker) -> Callable[..., Passage]:
    exprs = sp.Tuple(*map(sp.sympify, astuple(maker(act))))
    body = table((V, *act.parameters), exprs)
    names = [p.name for p in act.parameters]
    return lambda V, **open_: Passage(*body(V, *(open_[name] for name in names)))


def _lifted(xp: Any, value: Any, where: dict[str, Any]) -> Twofold:
    tensor = hasattr(value, "requires_grad")  # its gradient is kept
    return Twofold(
        xp, value.to(xp.float64) if tensor else xp.asarray(value, dtype=xp.float64, **where)
    )


def _filled(part: Callable[..., Passage], open_: dict[str, Any]) -> Callable[[Any], Passage]:
    return lambda V: part(V, **open_)


def _cut(values: Sequence[Any], counts: Iterable[int]) -> list[Sequence[Any]]:
    """The values in groups of the given sizes, and what is left."""
    groups, start = [], 0
    for count in counts:
        groups.append(values[start : start + count])
        start += count
    return [*groups, values[start:]]


def _each(part: Sequence[Any], depth: Any) -> Sequence[Any]:
    """One for every layer, or a single one repeated."""
    return list(part) * int(depth) if len(part) == 1 else part
