r"""Data augmentation: averages of kernels over orbits, and the mean prediction of trained networks.

For a lifting filter on all points, group filters on the whole group and pooling at the end,
$\Theta^{GC}(f, f') = \frac1{|G|}\sum_g\Theta^{MLP}(f, \rho(g)f')$, and the same for the NNGP. Gradient flow
of the loss $\frac w2\sum_i(N(f_i)-y_i)^2$ has the mean over initialisations
$\Theta(f, X)\int_0^t e^{-w\Theta(X, X)s}\,w\,y\,ds$. For an MLP on the orbit of a training set with w = 1/|G|
it is, at every time, that of the group-convolutional network on the training set with w = 1; with w = 1 it
is that at the time |G| t.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import sympy as sp
from mpmath import mp

from analytic.equivariant.actions import (
    Action,
    Signal,
    exact_number,
    require_action,
)
from analytic.expressions.arguments import InputError, RealNumber, listed
from analytic.expressions.backends import compile_mpmath

__all__ = ["augmented", "group_average", "mean_prediction"]

PairKernel = Callable[[Signal, Signal], sp.Expr]


def group_average(kernel: PairKernel, action: Action) -> PairKernel:
    r"""The kernel $(f, f') \mapsto \frac1{|G|}\sum_g k(f, \rho(g)f')$.

    kernel: a function of two signals, such as `net.ntk`. What is no function, and no Action, is refused with
    an InputError.

    >>> from analytic.activations import monomial
    >>> from analytic.equivariant import cyclic, perceptron, regular
    >>> swap = regular(cyclic(2))
    >>> group_average(perceptron(2, [monomial(2)]).ntk, swap)([1, 2], [1, 0])
    5/3
    """
    action = require_action("action", action)
    if not callable(kernel):
        raise InputError(
            f"kernel = {kernel!r} was given, but kernel must be a function of two signals, as net.ntk."
        )

    def averaged(f: Signal, other: Signal) -> sp.Expr:
        return sp.Add(*(kernel(f, moved) for moved in action.orbit(other))) / action.group.order

    return averaged


def augmented(
    action: Action, signals: Sequence[Signal], targets: Sequence[RealNumber]
) -> tuple[list[Signal], list[sp.Expr]]:
    """Every signal of a training set moved by every element of the group, with its target.

    Different numbers of signals and targets are refused with an InputError, and so is what is no Action.

    >>> from analytic.equivariant import cyclic, regular
    >>> augmented(regular(cyclic(2)), [[1, 2]], [7])
    ([((1, 2),), ((2, 1),)], [7, 7])
    """
    action = require_action("action", action)
    rows, labels = _training_set(signals, targets)
    moved = [(one, y) for f, y in zip(rows, labels) for one in action.orbit(f)]
    return [one for one, _ in moved], [y for _, y in moved]


def mean_prediction(
    kernel: PairKernel,
    signals: Sequence[Signal],
    targets: Sequence[RealNumber],
    test: Signal,
    time: RealNumber,
    weight: RealNumber = 1,
) -> mp.mpf:
    r"""The mean output of wide networks after gradient flow, at the working precision of mpmath.

    kernel: the NTK, a symmetric function of two signals. signals, targets: the training set. test: one
    signal. time: at least 0. weight: w above 0 in the loss $\frac w2\sum_i(N(f_i)-y_i)^2$.

    Returned is a number. Negative times, other weights and different numbers of signals and targets are
    refused with an InputError.

    >>> from analytic.activations import monomial
    >>> from analytic.equivariant import perceptron
    >>> net = perceptron(2, [monomial(2)])
    >>> print(mp.nstr(mean_prediction(net.ntk, [[1, 2]], [1], [1, 2], 0.125), 6))
    0.838446
    """
    rows, labels = _training_set(signals, targets)
    at, share = exact_number("time", time), exact_number("weight", weight)
    if not (at.is_number and at >= 0 and share.is_number and share > 0):
        raise InputError(
            f"time = {time} and weight = {weight} were given: give a time at least 0, a weight above 0."
        )
    size = len(rows)
    half = {(i, j): _number(kernel(rows[i], rows[j])) for i in range(size) for j in range(i + 1)}
    # The top right column of this exponential is the integral, for singular kernels too.
    generator, w = mp.matrix(size + 1), _number(share)
    for (i, j), entry in half.items():
        generator[i, j] = generator[j, i] = -w * entry
    for i, label in enumerate(labels):
        generator[i, size] = w * _number(label)
    integral = mp.expm(generator * _number(at))
    return mp.fsum(_number(kernel(test, f)) * integral[i, size] for i, f in enumerate(rows))


def _training_set(
    signals: Sequence[Signal], targets: Sequence[RealNumber]
) -> tuple[list[Signal], list[sp.Expr]]:
    rows = listed("signals", signals, "a list of signals")
    labels = [exact_number("targets", y) for y in listed("targets", targets)]
    if not rows or len(rows) != len(labels):
        raise InputError(
            f"{len(rows)} signals and {len(labels)} targets were given: give at least one, as many of each."
        )
    return rows, labels


def _number(value: sp.Expr) -> mp.mpf:
    if value.is_Rational:  # nothing to compile
        return mp.mpf(int(value.p)) / int(value.q)
    return compile_mpmath((), value)()
