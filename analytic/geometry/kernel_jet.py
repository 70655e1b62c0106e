r"""The jet of a rotation-invariant kernel at x = y: the numbers that determine its geometry there.

With $s = |x|^2$ and $\theta = s\,d/ds$, a kernel k has the diagonal $T = k(x, x)$ and the metric
$g_{mn} = \partial_{x_m}\partial_{y_n}k = a\,\delta_{mn} + b\,x_m x_n$ at y = x. Sums and products of
kernels, and layers, act on the following numbers without a cancellation between large ones:

$$T,\quad t = \theta\log T,\quad A = sa,\quad \alpha = \theta\log a,\quad
  \gamma = \frac{s(2a'-b)}{2a},\quad \pi = 1 - \frac{T'}{a},\quad
  \chi = \frac{a + sb}{a} - \frac{sT'^2}{Ta} \ge 0,$$

and beside them on $1 - \pi$ and $\beta = \alpha - \gamma$, which may be small where their terms are not.
The metric of a shallow NNGP has $\gamma = \pi = 0$. The excess $\chi$ is the gap in a Cauchy-Schwarz
inequality, and $\chi + t(1-\pi) = 1 + 2\beta$ is the ratio of the metric's eigenvalue along x to the one
across it.

Where the metric is nearly degenerate or nearly a cone, rates are much smaller than the terms they are
sums of. Floats lose all their digits there, so deep kernels are computed with twofold numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

__all__ = ["Dual", "KernelJet", "LayerMoments", "linear"]


@dataclass(frozen=True)
class Dual:
    """A function f of s at a point, and its rate theta f = s f'."""

    value: Any
    rate: Any

    def __add__(self, other: Dual) -> Dual:
        return Dual(self.value + other.value, self.rate + other.rate)

    def __sub__(self, other: Dual) -> Dual:
        return Dual(self.value - other.value, self.rate - other.rate)

    def __mul__(self, other: Dual) -> Dual:
        rate = self.rate * other.value + self.value * other.rate
        return Dual(self.value * other.value, rate)


ZERO, ONE = Dual(0, 0), Dual(1, 0)


@dataclass(frozen=True)
class LayerMoments:
    r"""The Gaussian moments of a layer at its preactivation variance V, which map a jet to the next.

    For the kernel $E[\phi\phi]$ they are $F = E[\phi^2]$ and $G = E[\phi'^2]$; in the derivative layer,
    whose kernel is $E[\phi'\phi']$, F and G stand for $G$ and $G_2 = E[\phi''^2]$. Further,
    $\epsilon_F = VF'/F$ and $\epsilon_G = VG'/G$, the ratio is $F'/G$, and a rate is $V\,d/dV$.
    """

    F: Any
    eps_F: Any
    rate_eps_F: Any
    G: Any
    eps_G: Any
    rate_eps_G: Any
    one_plus_2_eps_G: Any
    ratio: Any
    rate_ratio: Any


@dataclass(frozen=True)
class KernelJet:
    """The numbers of the module's docstring at one s: expressions, mpf or twofold arrays."""

    T: Any
    t: Dual
    A: Any
    alpha: Dual
    gamma: Dual
    pi: Dual
    one_minus_pi: Dual
    beta: Dual
    excess: Any  # chi

    @property
    def log_rate_of_ratio(self) -> Any:
        """theta log(A/T)."""
        return 1 + self.alpha.value - self.t.value

    @property
    def eigenvalue_ratio(self) -> Any:
        """The eigenvalue of the metric along x divided by the one across it."""
        return self.excess + self.t.value * self.one_minus_pi.value

    def scaled(self, factor: Any) -> KernelJet:
        """The jet of the kernel times a constant factor."""
        return replace(self, T=factor * self.T, A=factor * self.A)

    def plus_constant(self, constant: Any) -> KernelJet:
        """The jet of the kernel plus a constant: the metric is unchanged, and T is larger."""
        T = self.T + constant
        old_share, new_share = self.T / T, constant / T
        t = Dual(old_share, old_share * new_share * self.t.value) * self.t
        excess = self.excess + new_share * self.t.value * self.one_minus_pi.value
        return replace(self, T=T, t=t, excess=excess)

    def __add__(self, other: KernelJet) -> KernelJet:
        """The jet of the sum of two kernels."""
        T, A = self.T + other.T, self.A + other.A
        difference = self.t.value - other.t.value
        diagonal = _WeightedMean(self.T / T, other.T / T, difference)
        mean = _WeightedMean(self.A / A, other.A / A, self.alpha.value - other.alpha.value)
        return KernelJet(
            T,
            diagonal(self.t, other.t),
            A,
            mean(self.alpha, other.alpha),
            mean(self.gamma, other.gamma),
            mean(self.pi, other.pi),
            mean(self.one_minus_pi, other.one_minus_pi),
            mean(self.beta, other.beta),
            mean.of(self.excess, other.excess) + diagonal.product * difference**2 * T / A,
        )

    def __mul__(self, other: KernelJet) -> KernelJet:
        """The jet of the product of two kernels."""
        A_self, A_other = self.A * other.T, self.T * other.A
        A = A_self + A_other
        rates = self.log_rate_of_ratio, other.log_rate_of_ratio
        mean = _WeightedMean(A_self / A, A_other / A, rates[0] - rates[1])
        both = self.A / A * other.A  # divided first, because A * A underflows near the origin
        log_rate = mean.of(rates[1], rates[0])
        remainder = self.one_minus_pi + self.pi * other.one_minus_pi
        cross = Dual(both, both * log_rate) * remainder
        return KernelJet(
            self.T * other.T,
            self.t + other.t,
            A,
            mean(self.alpha + other.t, other.alpha + self.t),
            mean(self.gamma, other.gamma) + cross,
            mean(self.pi, other.pi),
            mean(self.one_minus_pi, other.one_minus_pi),
            mean(self.beta + other.t, other.beta + self.t) - cross,
            mean.of(self.excess, other.excess),
        )

    def through(self, layer: LayerMoments) -> KernelJet:
        """The jet of E[phi(u) phi(v)] for Gaussian u, v whose covariance is this kernel."""
        t = self.t

        def of_variance(value: Any, rate: Any) -> Dual:
            """A function of V = T(s), whose rate by V is known."""
            return Dual(value, rate * t.value)

        eps_F = of_variance(layer.eps_F, layer.rate_eps_F)
        ratio = of_variance(layer.ratio, layer.rate_ratio)
        rate_log_G = of_variance(layer.eps_G, layer.rate_eps_G) * t  # theta log G(T(s))
        gap = layer.one_plus_2_eps_G - layer.eps_F * layer.ratio
        return KernelJet(
            layer.F,
            eps_F * t,
            layer.G * self.A,
            self.alpha + rate_log_G,
            self.gamma + rate_log_G * self.pi,
            self.pi + (ONE - ratio) * self.one_minus_pi,
            ratio * self.one_minus_pi,
            self.beta + rate_log_G * self.one_minus_pi,
            self.excess + t.value * self.one_minus_pi.value * gap,
        )

    def ricci(self, d: Any) -> Any:
        """The Ricci scalar in d dimensions: `RadialMetric.scalar_curvature` in these numbers."""
        alpha, gamma, beta, ratio = self.alpha, self.gamma, self.beta, self.eigenvalue_ratio
        tangential = (d - 2) * (2 * gamma.value + alpha.value**2)
        radial = 4 * (gamma.rate + beta.rate * (beta.value - gamma.value) / ratio)
        return -(d - 1) * (tangential + radial) / (self.A * ratio)


def linear(s: Any) -> KernelJet:
    """The jet of the kernel x.y at |x|^2 = s."""
    return KernelJet(s, ONE, s, ZERO, ZERO, ZERO, ONE, ZERO, 0)


@dataclass(frozen=True)
class _WeightedMean:
    """A mean with weights p + q = 1, where theta log(p/q) is `log_rate`."""

    p: Any
    q: Any
    log_rate: Any

    @property
    def product(self) -> Any:
        return self.p * self.q

    def of(self, one: Any, other: Any) -> Any:
        return self.p * one + self.q * other

    def __call__(self, one: Dual, other: Dual) -> Dual:
        """The mean of two functions of s; the weights change with s too."""
        by_weights = self.product * self.log_rate * (one.value - other.value)
        return Dual(self.of(one.value, other.value), self.of(one.rate, other.rate) + by_weights)
