r"""Does a Bayesian network of finite width expand or contract its volume element on average?

Given the hidden weights, the readout is Gaussian and integrates out, which leaves the posterior
$p(W)\,|K|^{-m/2}\,e^{-\frac12\mathrm{tr}\,K^{-1}YY^T}$ with K the network's own kernel (plus the
temperature). So networks drawn from the prior are weighted by that density $\omega$, and
$\langle A\rangle = E[\omega A]/E[\omega]$. That the prior mean of the metric is known takes the noise
out: $h = \bar g^{-1/2}g\,\bar g^{-1/2} - 1$ has mean zero, so that

$$n\,E[\omega(\sqrt{\det(1+h)} - 1)] = n\,E\big[\omega(\sqrt{\det(1+h)} - 1 - \tfrac12\mathrm{tr}\,h)
    + (\omega-1)\,\tfrac12\mathrm{tr}\,h\big],$$

where every draw is of order one, however wide the network. Neither (E.12) nor kappa enters.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from numeric.estimate import Estimate
from numeric.experiments.bayes.coefficients import Coefficients, Tally
from numeric.experiments.bayes.dataset import Problem
from numeric.inputs import InputError, require_instance, require_seed, resolve, whole
from numeric.models.shallow import ShallowNetwork
from numeric.progress import progress_bar

__all__ = ["FewEffectiveDraws", "PosteriorVolume", "Weighted", "at_infinite_width"]

BLOCK = 2**20  # numbers held at once in the largest array
FEWEST = 100  # effective draws below which the result is refused


class FewEffectiveDraws(UserWarning):
    """A few networks carry most of the weight, so that standard errors are too small."""


@dataclass(frozen=True)
class Weighted:
    """Results of weighted networks of one width."""

    width: int
    coefficients: Coefficients
    effective: float  # effective sample size: draws of equal weight with the same variance
    draws: int


@dataclass(frozen=True, eq=False)
class PosteriorVolume:
    """Networks of width n drawn from the prior and weighted by how well they fit the data.

    n: units, as many at least as there are examples and inputs. draws: networks, 200 at least. `run`
    returns the Weighted coefficients with standard errors. Fewer than 100 effective draws are refused,
    and few of them are warned of (FewEffectiveDraws).

    >>> from analytic.activations import monomial
    >>> problem = Problem.one_example(monomial(2), d=2, rho=0.5, ratio=1.0)
    >>> PosteriorVolume(problem, n=50, draws=400, device="cpu").run(progress=False).draws
    400
    """

    problem: Problem
    n: int = 300
    draws: int = 20_000
    seed: int = 0
    device: str | torch.device = "auto"

    def __post_init__(self) -> None:
        require_instance("problem", self.problem, Problem, "Problem.one_example(relu, 2, 0.5, 1.0)")
        whole("n", self.n, 1)
        require_seed(self.seed)
        whole("draws", self.draws, 2 * FEWEST)  # since weights make fewer of them effective
        least = max(len(self.problem.inputs), self.problem.d)
        if self.n < least:
            raise InputError(
                f"n = {self.n} units cannot fit {len(self.problem.inputs)} examples or span "
                f"{self.problem.d} dimensions: take n at least {least}, better a hundred times that."
            )

    def run(self, progress: bool = True) -> Weighted:
        """Draw all networks and weigh them."""
        generator = torch.Generator(resolve(self.device)).manual_seed(self.seed)
        tallies = [Tally() for _ in fields(Coefficients)]
        total = squares = 0.0
        with progress_bar(of="networks", show=progress, total=self.draws) as bar:
            for size in self._sizes():
                weight, tops = self._draw(size, generator)
                for tally, (top, below) in zip(tallies, tops, strict=True):
                    tally.add(top, below)
                total, squares = total + weight.sum(), squares + (weight**2).sum()
                bar.update(size)
        total, squares = float(total), float(squares)  # once, where they may be on a device
        effective = self._require_effective_draws(total**2 / squares if squares else 0.0)
        coefficients = Coefficients(*(tally.estimate() for tally in tallies))
        return Weighted(self.n, coefficients, effective, self.draws)

    def _sizes(self) -> Iterator[int]:
        """Networks in groups that fit in memory."""
        p, r, d = len(self.problem.inputs), len(self.problem.points), self.problem.d
        size = max(1, BLOCK // (self.n * max(p, r, d**2)))
        for start in range(0, self.draws, size):
            yield min(size, self.draws - start)

    def _draw(
        self, size: int, generator: torch.Generator
    ) -> tuple[Tensor, tuple[tuple[Tensor, Tensor | None], ...]]:
        """Weights, and for each coefficient numerators and denominators, one for each draw."""
        problem, home, n = self.problem, generator.device, self.n
        network = self._networks(size, generator)
        mean = problem.metric.to(home)
        h = network.metric(problem.points.to(home)) - mean  # (N, r, d, d)
        weight = self._weights(network)
        root = torch.linalg.cholesky(mean)
        white = torch.linalg.solve_triangular(root, h, upper=False)
        white = torch.linalg.solve_triangular(root, white.mT, upper=False)
        half = white.diagonal(dim1=-2, dim2=-1).sum(-1) / 2  # (N, r)
        eye = torch.eye(problem.d, dtype=h.dtype, device=home)
        volume = torch.linalg.det(eye + white).clamp_min(0).sqrt()
        beyond_linear = n * (volume - 1 - half)
        tilt = n * (weight - 1)
        learning = tilt[:, None] * half
        return weight, (
            (tilt[:, None, None, None] * h, weight),
            (learning, weight),
            (beyond_linear, None),
            (learning + weight[:, None] * beyond_linear, weight),
        )

    def _networks(self, size: int, generator: torch.Generator) -> ShallowNetwork:
        """A stack of networks from the prior."""
        p = self.problem
        kind = {"generator": generator, "device": generator.device, "dtype": torch.float64}
        weights = p.sigma * torch.randn(size, self.n, p.d, **kind)
        biases = weights.new_zeros(size, self.n)
        if p.zeta:
            biases = p.zeta * torch.randn(size, self.n, **kind)
        return ShallowNetwork(p.activation, weights, biases)

    def _weights(self, network: ShallowNetwork) -> Tensor:
        """Importance weights: the likelihood of the data relative to that at infinite width."""
        p = self.problem
        inputs, labels, kernel, gamma = (
            t.to(network.weights.device) for t in (p.inputs, p.labels, p.kernel, p.gamma)
        )
        hidden = p.phi(network.preactivations(inputs))  # (N, p, n)
        own = hidden @ hidden.mT / self.n + (gamma - kernel)
        weight = torch.exp(_log_likelihood(own, labels) - _log_likelihood(gamma, labels))
        if not torch.isfinite(weight).all():
            raise InputError(
                "The weights overflow: the labels are too large for the kernel at this width: "
                "raise n or the temperature, or scale the labels down."
            )
        return weight

    def _require_effective_draws(self, effective: float) -> float:
        if effective < FEWEST:
            raise InputError(
                f"Of {self.draws} draws only {effective:.1f} count, but {FEWEST} are needed: raise n, "
                "where weights even out, or draws, or bring y^2 nearer to the kernel."
            )
        if effective < self.draws / 10:
            text = (
                f"Of {self.draws} draws only {effective:.0f} count: trust no standard error, "
                "and raise n, where weights even out."
            )
            warnings.warn(text, FewEffectiveDraws, stacklevel=3)
        return effective


def _log_likelihood(K: Tensor, labels: Tensor) -> Tensor:
    """log N(Y; 0, K) for each column of Y, summed, without its constant: (..., p, p) -> (...)."""
    factor, info = torch.linalg.cholesky_ex(K)
    if info.any():
        raise InputError(
            f"The kernel of {int((info > 0).sum())} networks is singular at the data: widen them, or "
            "give a temperature above 0."
        )
    fit = torch.linalg.solve_triangular(
        factor, labels.expand(*K.shape[:-2], *labels.shape), upper=False
    )
    log_det = 2 * factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)
    return -(labels.shape[1] * log_det + (fit**2).sum((-2, -1))) / 2


def at_infinite_width(narrow: Weighted, wide: Weighted) -> Coefficients:
    """Richardson extrapolation in 1/n, from runs at two widths with different seeds.

    With coefficients a at width n and b at width N it is (N b - n a) / (N - n), which leaves O(1/n^2).

    narrow, wide: what two runs of PosteriorVolume return; their standard errors are combined as of
    independent runs. Returned are Coefficients. Refused are runs of one width.

    >>> from analytic.activations import monomial
    >>> problem = Problem.one_example(monomial(2), d=2, rho=0.5, ratio=1.0)
    >>> runs = [PosteriorVolume(problem, n, 400, seed=n, device="cpu").run(False) for n in (50, 100)]
    >>> at_infinite_width(*runs).total.mean.shape
    torch.Size([1])
    """
    for name, run in (("narrow", narrow), ("wide", wide)):
        require_instance(name, run, Weighted, "what PosteriorVolume(...).run() returns")
    a, b = narrow.width, wide.width
    if a == b:
        raise InputError(f"Both runs have width {a}, but two widths are needed.")
    pairs = (
        (getattr(r.coefficients, f.name) for r in (narrow, wide)) for f in fields(Coefficients)
    )
    return Coefficients(*(_line(x, y, b / (b - a)) for x, y in pairs))


def _line(x: Estimate, y: Estimate, t: float) -> Estimate:
    """(1 - t) x + t y of independent estimates."""
    count = x.count + y.count
    stderr = ((1 - t) ** 2 * x.stderr**2 + t**2 * y.stderr**2).sqrt()
    return Estimate((1 - t) * x.mean + t * y.mean, stderr * math.sqrt(count), count)
