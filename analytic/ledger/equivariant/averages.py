"""Exact averages over Gaussian weights of small networks, and their groups, for the routes.

Outputs and tangent kernels of a network with a polynomial activation are polynomials in its weights, which
Gauss-Hermite rules average without error: what holds at every width needs no limit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import permutations, product
from typing import Any

from mpmath import mp

__all__ = [
    "LIFTING", "PERMUTATIONS", "SUPPORT", "at_elements", "average", "means", "moved", "pair_average",
    "phi", "pooled", "rule", "slope",
]  # fmt: skip

Rule = list[tuple[Any, Any]]  # nodes and weights for a standard normal variable


def rule(nodes: int) -> Rule:
    """The Gauss-Hermite rule of 2, 3 or 5 nodes, which averages degrees up to 3, 5 or 9 exactly."""
    if nodes == 2:
        return [(mp.mpf(s), mp.mpf(1) / 2) for s in (-1, 1)]
    if nodes == 3:
        return [(mp.mpf(0), mp.mpf(2) / 3)] + [(s * mp.sqrt(3), mp.mpf(1) / 6) for s in (-1, 1)]
    root = mp.sqrt(10)
    pairs = [(mp.sqrt(5 + s * root), (7 - 2 * s * root) / 60) for s in (-1, 1)]
    return [(mp.mpf(0), mp.mpf(8) / 15)] + [(s * x, w) for x, w in pairs for s in (-1, 1)]


def average(f: Callable[[Sequence[Any]], Sequence[Any]], rules: Sequence[Rule]) -> list[Any]:
    """The means of several functions of independent normal variables, one rule for each variable."""
    total: list[Any] = []
    for nodes in product(*rules):
        weight = mp.fprod(w for _, w in nodes)
        values = [weight * value for value in f([x for x, _ in nodes])]
        total = [a + b for a, b in zip(total, values, strict=True)] if total else values
    return total


def pair_average(f: Callable[[Any, Any], Sequence[Any]], gram: Sequence[Any]) -> list[Any]:
    """The means of polynomials of two normal variables of covariance kxx, kxy, kyy, of degree 5 at most."""
    kxx, kxy, kyy = gram
    scale, rest = mp.sqrt(kxx), mp.sqrt(kyy - kxy**2 / kxx)

    def at(z: Sequence[Any]) -> Sequence[Any]:
        return f(scale * z[0], kxy / scale * z[0] + rest * z[1])

    return average(at, [rule(3)] * 2)


# The group of permutations of three points, in the order in which the package numbers them.
PERMUTATIONS = tuple(permutations(range(3)))


def after(g: Sequence[int], h: Sequence[int]) -> tuple[int, ...]:
    """The permutation that moves x to g(h(x))."""
    return tuple(g[x] for x in h)


def moved(g: Sequence[int], f: Sequence[Any]) -> list[Any]:
    """The signal whose value at g(x) is f(x)."""
    result = list(f)
    for x, place in enumerate(g):
        result[place] = f[x]
    return result


LIFTING = (0, 1)  # of the three points, where lifting filters do not vanish
SUPPORT = ((1, 2, 0), (0, 2, 1))  # of the permutations: a rotation and a swap, which do not commute


def phi(u: Any) -> Any:
    return u + 2 * u**2


def slope(u: Any) -> Any:
    return 1 + 4 * u


def means(values: dict[str, Any], read: Callable[..., Any]) -> tuple[Any, Any]:
    """NNGP and NTK of a network of one channel on permutations: lifting, phi, convolution.

    `read` turns a field on the group, of outputs or of their derivatives by a weight, into the number that
    is compared; its second argument tells the first signal, 0, from the second, 1.
    """
    f, h = ([values[f"{name}{k}"] for k in (1, 2, 3)] for name in "fh")
    w_scale = values["sigma_w"] / mp.sqrt(2)  # one channel, and supports of two
    b_scale = values["sigma_b"]

    def outputs(signal: list[Any], weights: Sequence[Any]) -> tuple[Any, list[Any]]:
        """The outputs at all elements, and their derivatives by each weight."""
        filters, bias, convolved, last = weights[:2], weights[2], weights[3:5], weights[5]
        hidden, slopes = {}, {}
        for g in PERMUTATIONS:
            taken = [signal[g[y]] for y in LIFTING]
            u = w_scale * sum(k * s for k, s in zip(filters, taken, strict=True)) + b_scale * bias
            hidden[g] = phi(u)
            slopes[g] = [slope(u) * w_scale * s for s in taken] + [slope(u) * b_scale]
        fields: list[dict[tuple[int, ...], Any]] = []
        rows = [[hidden[after(g, h)] for h in SUPPORT] for g in PERMUTATIONS]
        fields.append(
            {
                g: w_scale * sum(k * v for k, v in zip(convolved, row)) + b_scale * last
                for g, row in zip(PERMUTATIONS, rows, strict=True)
            }
        )
        for i in range(3):  # by lifting weights and bias
            fields.append(
                {
                    g: w_scale * sum(k * slopes[after(g, h)][i] for k, h in zip(convolved, SUPPORT))
                    for g in PERMUTATIONS
                }
            )
        for j in range(2):  # by the weights of the convolution
            fields.append({g: w_scale * row[j] for g, row in zip(PERMUTATIONS, rows, strict=True)})
        fields.append(dict.fromkeys(PERMUTATIONS, b_scale))
        return fields[0], fields[1:]

    def products(weights: Sequence[Any]) -> list[Any]:
        one, two = (outputs(signal, weights) for signal in (f, h))
        tangent = sum(read(a, 0) * read(b, 1) for a, b in zip(one[1], two[1], strict=True))
        return [read(one[0], 0) * read(two[0], 1), tangent]

    nngp, ntk = average(products, [rule(3)] * 3 + [rule(2)] * 3)
    return nngp, ntk


def at_elements(field: dict[tuple[int, ...], Any], which: int) -> Any:
    """The value at element 1 for the first signal, at element 4 for the second."""
    return field[PERMUTATIONS[(1, 4)[which]]]


def pooled(field: dict[tuple[int, ...], Any], which: int) -> Any:
    return sum(field.values()) / len(field)
