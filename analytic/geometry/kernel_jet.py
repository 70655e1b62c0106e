r"""Kernels that rotations leave alone, as far as their geometry at x = y knows them.

With $s = |x|^2$ and $\theta = s\,d/ds$, a kernel k has the diagonal $T = k(x, x)$ and the metric
$g_{mn} = \partial_{x_m}\partial_{y_n}k = a\,\delta_{mn} + b\,x_m x_n$ at y = x. Sums and products of
kernels, and layers, act on the following numbers without a cancellation between large ones:

$$T,\quad t = \theta\log T,\quad A = sa,\quad \alpha = \theta\log a,\quad
  \gamma = \frac{s(2a'-b)}{2a},\quad \pi = 1 - \frac{T'}{a},\quad
  \chi = \frac{a + sb}{a} - \frac{sT'^2}{Ta} \ge 0,$$

and beside them on $1 - \pi$ and $\beta = \alpha - \gamma$, which are small where their terms are not.
The metric of a shallow NNGP has $\gamma = \pi = 0$. The excess $\chi$ is a Cauchy-Schwarz gap, and
$\chi + t(1-\pi) = 1 + 2\beta$ the eigenvalue of the metric along x over the one across it.

Where the metric nearly degenerates or is nearly a cone, rates fall far below their terms, which no
float can follow: twofold numbers do.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True)
class Flow:
    """A function of s at a point, and its logarithmic rate theta f = s f'."""

    value: Any
    rate: Any

    def __add__(self, other: Flow) -> Flow:
        return Flow(self.value + other.value, self.rate + other.rate)

    def __sub__(self, other: Flow) -> Flow:
        return Flow(self.value - other.value, self.rate - other.rate)

    def __mul__(self, other: Flow) -> Flow:
        rate = self.rate * other.value + self.value * other.rate
        return Flow(self.value * other.value, rate)


ZERO, ONE = Flow(0, 0), Flow(1, 0)


@dataclass(frozen=True)
class Passage:
    r"""What a layer does to a germ: moments f, g of phi (F and G, or G and G2) at its variance V.

    `first` and `second` are $\epsilon = V f'/f$ and $V\epsilon'$, `slope` and `bend` the same of g;
    `stretch` is 1 + 2 slope; `ratio` is $f'/g$ and `turn` is $V(f'/g)'$.
    """

    f: Any
    first: Any
    second: Any
    g: Any
    slope: Any
    bend: Any
    stretch: Any
    ratio: Any
    turn: Any


@dataclass(frozen=True)
class Germ:
    """The numbers of the opening docstring at one s; they may be symbols, mpf or twofold arrays."""

    T: Any
    t: Flow
    A: Any
    alpha: Flow
    gamma: Flow
    pi: Flow
    kept: Flow  # 1 - pi
    beta: Flow
    excess: Any

    @property
    def lag(self) -> Any:
        """theta log(A/T)."""
        return 1 + self.alpha.value - self.t.value

    @property
    def stretch(self) -> Any:
        """The eigenvalue of the metric along x over the one across it."""
        return self.excess + self.t.value * self.kept.value

    def scaled(self, factor: Any) -> Germ:
        return replace(self, T=factor * self.T, A=factor * self.A)

    def raised(self, level: Any) -> Germ:
        """The kernel plus a constant: the metric stays, the share of the kernel in T shrinks."""
        T = self.T + level
        part, rest = self.T / T, level / T
        t = Flow(part, part * rest * self.t.value) * self.t
        excess = self.excess + rest * self.t.value * self.kept.value
        return replace(self, T=T, t=t, excess=excess)

    def __add__(self, other: Germ) -> Germ:
        T, A = self.T + other.T, self.A + other.A
        apart = self.t.value - other.t.value
        diagonal = _Mean(self.T / T, other.T / T, apart)
        mean = _Mean(self.A / A, other.A / A, self.alpha.value - other.alpha.value)
        return Germ(
            T,
            diagonal(self.t, other.t),
            A,
            mean(self.alpha, other.alpha),
            mean(self.gamma, other.gamma),
            mean(self.pi, other.pi),
            mean(self.kept, other.kept),
            mean(self.beta, other.beta),
            mean.of(self.excess, other.excess) + diagonal.covariance * apart**2 * T / A,
        )

    def __mul__(self, other: Germ) -> Germ:
        mine, theirs = self.A * other.T, self.T * other.A
        A = mine + theirs
        mean = _Mean(mine / A, theirs / A, self.lag - other.lag)
        meeting = self.A / A * other.A  # in this order: A * A underflows near the origin
        growth = mean.of(other.lag, self.lag)
        cross = Flow(meeting, meeting * growth) * (self.kept + self.pi * other.kept)
        return Germ(
            self.T * other.T,
            self.t + other.t,
            A,
            mean(self.alpha + other.t, other.alpha + self.t),
            mean(self.gamma, other.gamma) + cross,
            mean(self.pi, other.pi),
            mean(self.kept, other.kept),
            mean(self.beta + other.t, other.beta + self.t) - cross,
            mean.of(self.excess, other.excess),
        )

    def through(self, layer: Passage) -> Germ:
        """The kernel E[phi(u) phi(v)] of Gaussian u, v whose covariance is this kernel."""
        t = self.t

        def moving(value: Any, rate: Any) -> Flow:
            return Flow(value, rate * t.value)

        lift = moving(layer.slope, layer.bend) * t
        first, ratio = moving(layer.first, layer.second), moving(layer.ratio, layer.turn)
        slack = layer.stretch - layer.first * layer.ratio
        return Germ(
            layer.f,
            first * t,
            layer.g * self.A,
            self.alpha + lift,
            self.gamma + lift * self.pi,
            self.pi + (ONE - ratio) * self.kept,
            ratio * self.kept,
            self.beta + lift * self.kept,
            self.excess + t.value * self.kept.value * slack,
        )

    def ricci(self, d: Any) -> Any:
        """The Ricci scalar in d dimensions: `RadialMetric.scalar_curvature` in these numbers."""
        alpha, gamma, beta, along = self.alpha, self.gamma, self.beta, self.stretch
        sphere = (d - 2) * (2 * gamma.value + alpha.value**2)
        bend = beta.rate * (beta.value - gamma.value) / along
        return -(d - 1) * (sphere + 4 * (gamma.rate + bend)) / (self.A * along)


def linear(s: Any) -> Germ:
    """The kernel x.y."""
    return Germ(s, ONE, s, ZERO, ZERO, ZERO, ONE, ZERO, 0)


@dataclass(frozen=True)
class _Mean:
    """A mean with two weights, whose logarithms grow at rates that lie `apart`."""

    p: Any
    q: Any
    apart: Any

    @property
    def covariance(self) -> Any:
        return self.p * self.q

    def of(self, mine: Any, other: Any) -> Any:
        return self.p * mine + self.q * other

    def __call__(self, mine: Flow, other: Flow) -> Flow:
        drift = self.covariance * self.apart * (mine.value - other.value)
        return Flow(self.of(mine.value, other.value), self.of(mine.rate, other.rate) + drift)
