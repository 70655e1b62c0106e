r"""NNGP and NTK of infinitely wide group-convolutional networks, layer by layer and exactly.

With $K_{g,g'}$ the kernel of the values at the group elements g and g' of the signals f and f', a filter of
support S, weights of variance $\sigma_w^2$ over the fan-in and biases of variance $\sigma_b^2$,

    lifting        $K_{g,g'} = \frac{\sigma_w^2}{c|S|}\sum_{y\in S}\sum_c f_c(gy)f'_c(g'y) + \sigma_b^2$,
                   $\Theta = K$
    convolution    $K_{g,g'} \leftarrow \frac{\sigma_w^2}{|S|}\sum_{h\in S} K_{gh,g'h} + \sigma_b^2$,
                   $\Theta_{g,g'} \leftarrow K_{g,g'} + \frac{\sigma_w^2}{|S|}\sum_{h\in S}\Theta_{gh,g'h}$,
                   by the new K
    nonlinearity   $K_{g,g'} \leftarrow E[\phi(u)\phi(v)]$,
                   $\Theta_{g,g'} \leftarrow E[\phi'(u)\phi'(v)]\,\Theta_{g,g'}$, by the old K
    pooling        the mean over g and g'.

The group of one element makes them the recursion of a multilayer perceptron.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache

import sympy as sp

from analytic.activations.activation import GRAM, Activation, require_activation
from analytic.equivariant.actions import (
    Action,
    Signal,
    exact_number,
    exact_signal,
    require_action,
    trivial,
)
from analytic.equivariant.groups import Group
from analytic.expressions.arguments import InputError, RealNumber, listed, whole
from analytic.expressions.symbols import V

__all__ = ["GroupNetwork", "PairKernels", "dense", "lift", "perceptron"]

Table = tuple[tuple[sp.Expr, ...], ...]


@dataclass(frozen=True)
class PairKernels:
    """Kernels of one layer for a pair of signals at every pair of group elements, entry [g][g'].

    `first` and `second` are the NNGP of each signal with itself at (g, g), which nonlinearities need.
    """

    group: Group
    nngp: Table
    ntk: Table
    first: tuple[sp.Expr, ...]
    second: tuple[sp.Expr, ...]

    def through(self, act: Activation) -> PairKernels:
        """After an elementwise nonlinearity, whose NTK takes the NNGP before it."""
        act = require_activation(act)
        kernel, slope = (
            cache(_compiled(act.require(part).expr, GRAM)) for part in ("kernel", "slope")
        )
        power = cache(_compiled(act.F.expr, (V,)))

        def triples(g: int) -> list[tuple[sp.Expr, ...]]:
            return [(self.first[g], self.nngp[g][h], self.second[h]) for h in self.group.elements]

        return replace(
            self,
            nngp=tuple(tuple(kernel(*t) for t in triples(g)) for g in self.group.elements),
            ntk=tuple(
                tuple(slope(*t) * self.ntk[g][h] for h, t in enumerate(triples(g)))
                for g in self.group.elements
            ),
            first=tuple(map(power, self.first)),
            second=tuple(map(power, self.second)),
        )

    def convolved(self, support: Sequence[int], weight: sp.Expr, bias: sp.Expr) -> PairKernels:
        """After a group convolution; weight and bias are the variances of the two."""
        times = self.group.table

        def mean(values: Callable[[int], sp.Expr]) -> sp.Expr:
            return weight * sp.Add(*map(values, support)) / len(support)

        def everywhere(table: Table) -> list[list[sp.Expr]]:
            elements = self.group.elements
            return [
                [mean(lambda h, g=g, k=k: table[times[g][h]][times[k][h]]) for k in elements]
                for g in elements
            ]

        def along(values: tuple[sp.Expr, ...]) -> tuple[sp.Expr, ...]:
            return tuple(
                mean(lambda h, g=g: values[times[g][h]]) + bias for g in self.group.elements
            )

        nngp = tuple(tuple(k + bias for k in row) for row in everywhere(self.nngp))
        averaged = everywhere(self.ntk)
        ntk = tuple(tuple(map(sp.Add, *rows)) for rows in zip(nngp, averaged, strict=True))
        return replace(self, nngp=nngp, ntk=ntk, first=along(self.first), second=along(self.second))

    def pooled(self) -> tuple[sp.Expr, sp.Expr]:
        r"""NNGP and NTK after the mean over the group, $\frac1{|G|^2}\sum_{g,g'}$ of each."""
        pairs = self.group.order**2
        nngp, ntk = (sp.Add(*(k for row in t for k in row)) / pairs for t in (self.nngp, self.ntk))
        return nngp, ntk


def _compiled(expr: sp.Expr, args: Sequence[sp.Symbol]) -> Callable[..., sp.Expr]:
    return lambda *values: expr.xreplace(dict(zip(args, values, strict=True)))


def lift(
    action: Action,
    f: Signal,
    other: Signal,
    support: Sequence[int],
    weight: sp.Expr,
    bias: sp.Expr,
) -> PairKernels:
    r"""The first layer, from signals on points to signals on the group: there the NTK is the NNGP."""
    moves, points = action.moves, action.points
    signals = [exact_signal("f", f, points), exact_signal("other", other, points)]
    channels = {len(signal) for signal in signals}
    if len(channels) > 1:
        raise InputError(
            f"Signals of {sorted(channels)} channels were given: a network takes one number of them."
        )

    def product(one: Table, g: int, two: Table, h: int) -> sp.Expr:
        pairs = [(moves[g][y], moves[h][y]) for y in support]
        terms = [a[x] * b[z] for a, b in zip(one, two, strict=True) for x, z in pairs]
        return weight * sp.Add(*terms) / len(terms) + bias

    one, two = signals
    elements = action.group.elements
    nngp = tuple(tuple(product(one, g, two, h) for h in elements) for g in elements)
    first, second = (tuple(product(s, g, s, g) for g in elements) for s in signals)
    return PairKernels(action.group, nngp, nngp, first, second)


def dense(kxx: RealNumber, kxy: RealNumber, kyy: RealNumber) -> PairKernels:
    """The first layer of a multilayer perceptron, from the covariances of its preactivations.

    kxx, kxy, kyy: exact numbers or symbols; others are refused with an InputError.

    >>> from analytic.activations import monomial
    >>> dense(1, "1/2", 1).through(monomial(2)).ntk  # 4/3 of the square
    ((1/3,),)
    """
    first, cross, second = (exact_number("a covariance", value) for value in (kxx, kxy, kyy))
    return PairKernels(trivial(1).group, ((cross,),), ((cross,),), (first,), (second,))


@dataclass(frozen=True)
class GroupNetwork:
    r"""Lifting, then a nonlinearity and a group convolution for each activation, then pooling over the group.

    action: how the group moves the points of the signals. activations: at least one Activation.
    sigma_w, sigma_b: standard deviations of weights (over the root of the fan-in) and biases in every
    layer, exact numbers or symbols. lifting_support, support: where filters may differ from zero, numbers of
    points and of group elements; None is all of them.

    Signals are (points,) or (channels, points) of exact numbers or symbols. What does not fit is refused
    with an InputError.

    >>> from analytic.activations import monomial
    >>> from analytic.equivariant import cyclic, regular
    >>> net = GroupNetwork(regular(cyclic(2)), [monomial(2)])
    >>> net.nngp([1, 2], [1, 0]), net.ntk([1, 2], [1, 0])
    (5/6, 5/3)
    """

    action: Action
    activations: Sequence[Activation]
    sigma_w: RealNumber = 1
    sigma_b: RealNumber = 0
    lifting_support: Sequence[int] | None = None
    support: Sequence[int] | None = None

    def __post_init__(self) -> None:
        require_action("action", self.action)
        activations = tuple(
            map(
                require_activation, listed("activations", self.activations, "a list of Activations")
            )
        )
        if not activations:
            raise InputError("activations = [] was given, but a network needs at least one.")
        for name, value in (
            ("activations", activations),
            ("sigma_w", exact_number("sigma_w", self.sigma_w)),
            ("sigma_b", exact_number("sigma_b", self.sigma_b)),
        ):
            object.__setattr__(self, name, value)
        self._supports()  # refuses others

    def _supports(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Points and group elements where filters may differ from zero."""
        points, elements = range(self.action.points), self.action.group.elements
        return (
            _numbers("lifting_support", self.lifting_support, points),
            _numbers("support", self.support, elements),
        )

    def layers(self, f: Signal, other: Signal) -> list[PairKernels]:
        """The kernels after lifting, each nonlinearity and each convolution, before they are pooled."""
        weight, bias = self.sigma_w**2, self.sigma_b**2
        points, elements = self._supports()
        kernels = [lift(self.action, f, other, points, weight, bias)]
        for act in self.activations:
            kernels.append(kernels[-1].through(act))
            kernels.append(kernels[-1].convolved(elements, weight, bias))
        return kernels

    def nngp(self, f: Signal, other: Signal) -> sp.Expr:
        """K(f, f') after pooling: the covariance of the outputs of random networks."""
        return self.layers(f, other)[-1].pooled()[0]

    def ntk(self, f: Signal, other: Signal) -> sp.Expr:
        r"""$\Theta(f, f')$ after pooling: the kernel of gradient flow."""
        return self.layers(f, other)[-1].pooled()[1]


def perceptron(
    points: int,
    activations: Sequence[Activation],
    sigma_w: RealNumber = 1,
    sigma_b: RealNumber = 0,
) -> GroupNetwork:
    """The multilayer perceptron on the values of a signal: a network of the group that moves no point.

    Arguments are those of `GroupNetwork`, with the number of points in place of the action.

    >>> from analytic.activations import monomial
    >>> perceptron(2, [monomial(2)]).ntk([1, 2], [1, 0])
    11/12
    """
    return GroupNetwork(trivial(points), activations, sigma_w, sigma_b)


def _numbers(name: str, chosen: Sequence[int] | None, everything: range) -> tuple[int, ...]:
    if chosen is None:
        return tuple(everything)
    numbers = tuple(whole(name, k, 0) for k in listed(name, chosen))
    if not numbers or len(set(numbers)) < len(numbers) or not set(numbers) <= set(everything):
        raise InputError(
            f"{name} = {list(numbers)} was given, but {name} must be different numbers below "
            f"{len(everything)}, at least one."
        )
    return numbers
