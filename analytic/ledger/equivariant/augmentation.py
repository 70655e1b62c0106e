"""Data augmentation and group convolution: (14) and (15), on finite groups and on the sphere."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import sympy as sp
from mpmath import mp

from analytic.activations import erf, polynomial
from analytic.checks.claims import Claim
from analytic.equivariant import Action, GroupNetwork, cyclic, natural, regular, rototranslations
from analytic.expressions.formula import Formula
from analytic.ledger.equivariant.averages import PERMUTATIONS, moved
from analytic.ledger.verification import Verification, holds, real_symbols

__all__ = ["ROUTES"]

SCALES = real_symbols("sigma_w sigma_b")
VALUES = ("1.3", "-0.7", "0.4", "0.9", "-1.1", "0.6", "1.7", "-0.3")
Dual = Callable[[Any, Any, Any], tuple[Any, Any]]  # of a Gram matrix: E[phi phi], E[phi' phi']


def by_angles(kxx: Any, kxy: Any, kyy: Any) -> tuple[Any, Any]:
    """For erf: the angle between both preactivations once each has a normal variable of its own added."""
    height = mp.sqrt((1 + kxx) * (1 + kyy) - kxy**2)
    return 2 * mp.atan2(kxy, height) / mp.pi, 2 / (mp.pi * height)


def by_moments(kxx: Any, kxy: Any, kyy: Any) -> tuple[Any, Any]:
    """For u + 2 u^2 by E[u v] and E[u^2 v^2]."""
    return kxy + 4 * (kxx * kyy + 2 * kxy**2), 1 + 16 * kxy


def perceptron(duals: Sequence[Dual], f: Any, h: Any, sigma_w: Any, sigma_b: Any) -> Any:
    """NNGP and NTK of a multilayer perceptron."""

    def affine(k: Any) -> Any:
        return sigma_w**2 * k + sigma_b**2

    def inner(a: Any, b: Any) -> Any:
        return sum(x * y for x, y in zip(a, b, strict=True)) / len(a)

    gram = [affine(inner(*pair)) for pair in ((f, f), (f, h), (h, h))]
    tangent = gram[1]
    for dual in duals:
        kxx, kxy, kyy = gram
        triples = ((kxx, kxx, kxx), (kxx, kxy, kyy), (kyy, kyy, kyy))
        tangent *= sigma_w**2 * dual(kxx, kxy, kyy)[1]
        gram = [affine(dual(*triple)[0]) for triple in triples]
        tangent += gram[1]
    return gram[1], tangent


def _turns(size: int) -> list[tuple[int, ...]]:
    """Where affine maps of a square grid that closes on itself send its pixels."""
    pixels = [(a, b) for a in range(size) for b in range(size)]
    quarters: tuple[Callable[[int, int], tuple[int, int]], ...] = (
        lambda a, b: (a, b),
        lambda a, b: (-b, a),
        lambda a, b: (-a, -b),
        lambda a, b: (b, -a),
    )

    def send(turn: Any, s: int, t: int, a: int, b: int) -> int:
        c, d = turn(a, b)
        return (c + s) % size * size + (d + t) % size

    return [tuple(send(q, s, t, a, b) for a, b in pixels) for q in quarters for s, t in pixels]


ROTATIONS = [tuple((x + k) % 4 for x in range(4)) for k in range(4)]


def _theorem(
    name: str, action: Action, moves: Any, activations: Any, duals: Sequence[Dual]
) -> Claim:
    """The NTK of the group-convolutional network against the mean over the orbit of the perceptron's."""
    points = action.points
    f, h = (real_symbols(" ".join(f"{s}{k}" for k in range(points))) for s in "fh")
    expr = GroupNetwork(action, activations, *SCALES).ntk(f, h)

    def oracle(sigma_w: Any, sigma_b: Any, **values: Any) -> Any:
        one, two = ([values[s.name] for s in signal] for signal in (f, h))
        kernels = [perceptron(duals, one, moved(g, two), sigma_w, sigma_b)[1] for g in moves]
        return mp.fsum(kernels) / len(kernels)

    point = dict(zip([s.name for s in (*f, *h)], VALUES, strict=False))
    formula = Formula(f"NTK under {name}", (*f, *h, *SCALES), expr)
    place = {**point, "sigma_w": "1.2", "sigma_b": "0.3"}
    return Claim(formula, "the mean of perceptrons over the orbit", oracle, (place,))


# Signals on three points that any permutation may rearrange: two of a training set, and a test signal.
TRAINING = tuple(tuple(map(sp.Rational, f)) for f in (("3/4", "-1/2", "1/4"), ("0", "2/3", "1/2")))
TEST = tuple(map(sp.Rational, ("1/2", "1/3", "-3/4")))


def _means(name: str, shared: int, faster: int) -> Claim:
    """The mean prediction of the equivariant network against perceptrons trained on all permutations.

    The loss on the orbit is divided by `shared`; the equivariant network trains `faster` times as long.
    """
    y1, y2 = labels = real_symbols("y1 y2")
    t = sp.Symbol("t", positive=True)
    net = GroupNetwork(natural(3), [polynomial([0, 1, 2])], sp.S.Half, sp.Rational(1, 3))
    a, b, d = (net.ntk(TRAINING[i], TRAINING[j]) for i, j in ((0, 0), (0, 1), (1, 1)))
    cross = [net.ntk(TEST, f) for f in TRAINING]
    # exp(-A t) = e^(-m t) (cosh(r t) - (A - m) sinh(r t)/r) for A = [[a, b], [b, d]], where m is half of
    # its trace and m +- r are its eigenvalues.
    m, determinant = (a + d) / 2, a * d - b**2
    r, s = sp.sqrt(m**2 - determinant), faster * t
    shrink, mixed = sp.exp(-m * s) * sp.cosh(r * s), sp.exp(-m * s) * sp.sinh(r * s) / r
    left = [
        (1 - shrink) * y1 + mixed * ((a - m) * y1 + b * y2),
        (1 - shrink) * y2 + mixed * (b * y1 + (d - m) * y2),
    ]
    solved = [(d * left[0] - b * left[1]) / determinant, (a * left[1] - b * left[0]) / determinant]
    expr = cross[0] * solved[0] + cross[1] * solved[1]

    def oracle(y1: Any, y2: Any, t: Any) -> Any:
        one, two = ([mp.mpf(v.p) / v.q for v in f] for f in TRAINING)
        test = [mp.mpf(v.p) / v.q for v in TEST]
        signals = [moved(g, f) for f in (one, two) for g in PERMUTATIONS]
        targets = [y for y in (y1, y2) for _ in PERMUTATIONS]

        def kernel(f: Any, h: Any) -> Any:
            return perceptron([by_moments], f, h, mp.mpf(1) / 2, mp.mpf(1) / 3)[1]

        gram = mp.matrix([[kernel(f, h) for h in signals] for f in signals])
        values, vectors = mp.eigsy(gram)
        near = mp.matrix([kernel(test, f) for f in signals])
        total = mp.mpf(0)
        for k in range(len(signals)):
            way = vectors[:, k]
            rate = values[k] / shared
            grown = -mp.expm1(-rate * t) / rate if abs(rate) > mp.mpf(10) ** (8 - mp.dps) else t
            total += (near.T * way)[0] * grown * (way.T * mp.matrix(targets))[0] / shared
        return total

    formula = Formula(f"mean prediction, {name}", (*labels, t), expr)
    point = {"y1": "1.2", "y2": "-0.7", "t": "0.8"}
    return Claim(formula, "perceptrons trained on every permutation", oracle, (point,))


def _sphere() -> list[Claim]:
    """SO(3), one hidden layer of ReLU, and the signals a sqrt 3 z and b sqrt 3 z: 3ab/16 and ab/4."""
    a, b = args = sp.symbols("a b", positive=True)
    nngp = Formula("NNGP under rotations of the sphere", args, 3 * a * b / 16)
    ntk = Formula("NTK under rotations of the sphere", args, a * b / 4)

    def over_rotations(a: Any, b: Any) -> Any:
        """The mean of the perceptron's NTK: the angle of a random rotation has the density sin/2."""

        def kernel(angle: Any) -> Any:
            rest, c = mp.pi - angle, mp.cos(angle)
            return a * b * (mp.sin(angle) + 2 * rest * c) / (2 * mp.pi)

        return mp.quad(lambda angle: mp.sin(angle) / 2 * kernel(angle), [0, mp.pi])

    # White noise on the sphere, against a rotated z, is w.u for a normal vector w and a random direction u.
    def by_weights(tangent: bool, a: Any, b: Any) -> Any:
        """Of |w| M, the mean over directions of (w.u)_+, and of its gradient by w, which is M w/|w|."""
        mean = mp.quad(lambda c: c / 2, [0, 1])
        squares = mp.quad(
            lambda r: mp.sqrt(2 / mp.pi) * r**4 * mp.exp(-(r**2) / 2), mp.linspace(0, 24, 9)
        )
        return a * b * mean**2 * (squares + 1 if tangent else squares)

    point = ({"a": "1.3", "b": "0.7"},)
    weights = "equivariant networks averaged over their weights"
    return [
        Claim(nngp, weights, lambda a, b: by_weights(False, a, b), point),
        Claim(ntk, weights, lambda a, b: by_weights(True, a, b), point),
        Claim(ntk, "the mean of perceptrons over rotations", over_rotations, point),
    ]


_MIXED = polynomial([0, 1, 2])
ROUTES: dict[str, Verification] = {
    "equivariant-ntk/14": holds(
        _theorem("Z4", regular(cyclic(4)), ROTATIONS, [erf], [by_angles]),
        _theorem("S3", natural(3), PERMUTATIONS, [erf], [by_angles]),
        _theorem(
            "quarter turns and translations", rototranslations(2), _turns(2), [_MIXED], [by_moments]
        ),
        _means("loss averaged over the orbit", 6, 1),
        _means("loss summed over the orbit", 1, 6),
        *_sphere(),
    ),
    "equivariant-ntk/15": holds(
        _theorem(
            "S3, two hidden layers",
            natural(3),
            PERMUTATIONS,
            [_MIXED, erf],
            [by_moments, by_angles],
        ),
        _theorem(
            "Z4, three hidden layers",
            regular(cyclic(4)),
            ROTATIONS,
            [erf, _MIXED, erf],
            [by_angles, by_moments, by_angles],
        ),
    ),
}
