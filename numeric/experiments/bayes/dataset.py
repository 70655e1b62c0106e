r"""How a dataset changes the metric of a wide Bayesian network, to first order in 1/n, (E.9) to (E.13).

With $\Psi = \Gamma^{-1} G_{yy}\Gamma^{-1} - \Gamma^{-1}$ and one unit's $\phi_a = \phi(w\cdot x_a + b)$,

$$n(\langle g\rangle - \bar g) = \tfrac m2\sum_{ab}\Psi_{ab}
    \big(E[\phi_a\phi_b\,\phi'^2\,ww^T] - \bar k_{ab}\bar g\big), \qquad
\kappa = -\tfrac18 E[T^2] - \tfrac{d^2}8 + \tfrac d4, \quad T = \phi'^2\,w^T\bar g^{-1}w.$$

Half the trace of the first is the change of the volume element by learning; kappa, which is present
without any data, is its change by fluctuations.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from analytic.activations.activation import Activation
from analytic.expressions import symbols
from analytic.expressions.arguments import exact
from analytic.expressions.formula import Formula
from analytic.expressions.symbols import z
from analytic.geometry import nngp
from numeric.estimate import Estimate
from numeric.experiments.bayes.coefficients import Coefficients, Tally
from numeric.inputs import InputError, positive, require_seed, resolve, whole

__all__ = ["Problem"]

BLOCK = 2**20  # numbers held at once in the largest array
FINEST = 100  # most nodes on an axis: numpy tests its rules up to this degree
MOST = 2**21  # most nodes of a product rule: beyond it sampling is cheaper


@dataclass(frozen=True, eq=False)
class Problem:
    """A shallow Bayesian network, the data that it fits, and the points where its metric is wanted.

    activation: without open parameters. inputs (p, d), labels (p, m), points (r, d): float64 on the CPU.
    sigma, zeta: standard deviations of weights and biases. temperature: 1/beta. Refused are data whose kernel
    is singular, and points where the metric is.

    >>> from analytic.activations import monomial
    >>> problem = Problem.one_example(monomial(2), d=2, rho=0.5, ratio=1.0)
    >>> problem.quadrature(nodes=8).total.mean.shape
    torch.Size([1])
    """

    activation: Activation
    inputs: Tensor  # (p, d)
    labels: Tensor  # (p, m)
    points: Tensor  # (r, d)
    sigma: float = 1.0
    zeta: float = 0.0
    temperature: float = 0.0  # 1/beta; at 0 the network interpolates

    def __post_init__(self) -> None:
        if not isinstance(self.activation, Activation) or self.activation.parameters:
            raise InputError(
                f"activation must be an Activation without open parameters, such as monomial(2), "
                f"not {self.activation!r}."
            )
        _check_shapes(self.inputs, self.labels, self.points)
        positive("sigma", self.sigma)
        positive("zeta", self.zeta, zero=True)
        positive("temperature", self.temperature, zero=True)
        values = torch.linalg.eigvalsh(self.gamma)
        if not values[0] > 1e-12 * values[-1]:
            raise InputError(
                f"The kernel of the data is singular (eigenvalues {values[0]:.1e} to {values[-1]:.1e}): "
                "drop inputs that repeat or depend on others, or give a temperature above 0."
            )

    @classmethod
    def one_example(cls, activation: Activation, d: int, rho: float, ratio: float) -> Problem:
        """A unit input with label y, y^2 = ratio kbar, and one unit point at overlap rho with it.

        d: inputs. rho: in [-1, 1], and 1 or -1 for d = 1. ratio: above 0.
        """
        whole("d", d, 1)
        rho, ratio = float(exact(symbols.rho, rho)), float(exact(symbols.ratio, ratio))
        if not -1 <= rho <= 1 or (d == 1 and abs(rho) != 1):
            raise InputError(f"rho must lie in [-1, 1], and be 1 or -1 for d = 1, not {rho}.")
        inputs = torch.eye(1, d, dtype=torch.float64)
        points = rho * inputs
        if d > 1:
            points[0, 1] = math.sqrt(1 - rho**2)
        plain = cls(activation, inputs, torch.ones(1, 1, dtype=torch.float64), points)
        return cls(activation, inputs, (ratio * plain.kernel).sqrt(), points)

    @property
    def d(self) -> int:
        return self.inputs.shape[1]

    @property
    def outputs(self) -> int:
        return self.labels.shape[1]

    @cached_property
    def kernel(self) -> Tensor:
        """kbar, (p, p)."""
        gram = self.sigma**2 * self.inputs @ self.inputs.T + self.zeta**2
        own = gram.diagonal()
        return self.activation.kernel.torch(own[:, None], gram, own[None, :])

    @cached_property
    def gamma(self) -> Tensor:
        """(E.10), (p, p)."""
        return self.kernel + self.temperature * torch.eye(len(self.inputs), dtype=torch.float64)

    @cached_property
    def psi(self) -> Tensor:
        """(E.9), (p, p)."""
        inverse = torch.linalg.inv(self.gamma)
        return inverse @ (self.labels @ self.labels.T / self.outputs) @ inverse - inverse

    @cached_property
    def metric(self) -> Tensor:
        """gbar, (r, d, d), from its eigenvalues along and across each point."""
        radii = self.points.norm(dim=1)
        along, across = (
            f(self.activation).torch(self.sigma, self.zeta, radii)[:, None, None]
            for f in (nngp.radial, nngp.tangential)
        )
        unit = self.points / radii.clamp_min(torch.finfo(torch.float64).tiny)[:, None]
        line = unit[:, :, None] * unit[:, None, :]
        g = across * torch.eye(self.d, dtype=torch.float64) + (along - across) * line
        if not (torch.isfinite(g).all() and (torch.linalg.eigvalsh(g)[:, 0] > 0).all()):
            raise InputError(
                "The metric is singular at some of the points: move them off the origin."
            )
        return g

    @cached_property
    def phi(self) -> Callable[[Tensor], Tensor]:
        return self.activation.phi.torch

    @cached_property
    def slope(self) -> Callable[[Tensor], Tensor]:
        return Formula(f"{self.activation.name}'", (z,), self.activation.derivative()).torch

    def sampled(
        self, draws: int = 200_000, seed: int = 0, device: str | torch.device = "auto"
    ) -> Coefficients:
        """Monte Carlo averages over Gaussian units, in blocks."""
        whole("draws", draws, 2)
        generator = torch.Generator(resolve(device)).manual_seed(require_seed(seed))
        kind = {"generator": generator, "device": generator.device, "dtype": torch.float64}
        size = self._rows()
        tallies = [Tally() for _ in range(4)]
        nothing = torch.zeros(self.d, self.d, dtype=torch.float64)
        for start in range(0, draws, size):
            units = torch.randn(min(size, draws - start), self.d + 1, **kind)
            values = self._of_units(units[:, :-1], units[:, -1], nothing)
            for tally, value in zip(tallies, values, strict=True):
                tally.add(value)
        return Coefficients(*(tally.estimate() for tally in tallies))

    def quadrature(self, nodes: int = 48) -> Coefficients:
        """Gauss-Hermite quadrature in the span of data and point; `spread` is the change from nodes // 2."""
        whole("nodes", nodes, 2)
        if nodes > FINEST:
            raise InputError(
                f"nodes must be at most {FINEST}, not {nodes}: rules lose digits beyond."
            )
        alone = [replace(self, points=x[None]) for x in self.points]
        fine, rough = (
            [torch.cat(parts) for parts in zip(*(p._by_rule(count) for p in alone), strict=True)]
            for count in (nodes, nodes // 2)
        )
        return Coefficients(
            *(Estimate(a, (a - b).abs(), 1) for a, b in zip(fine, rough, strict=True))
        )

    def _by_rule(self, nodes: int) -> list[Tensor]:
        """The four coefficients at one point; weights outside the span are averaged in closed form."""
        span = torch.nn.functional.normalize(torch.cat([self.inputs, self.points]))
        _, sizes, rows = torch.linalg.svd(span, full_matrices=False)
        basis = rows[sizes > 1e-14 * sizes[0]]  # (k, d); what rounding adds costs time alone
        axes = len(basis) + (self.zeta > 0)
        if nodes**axes > MOST:
            raise InputError(
                f"{nodes} nodes on each of {axes} axes are too many: take at most "
                f"{int(MOST ** (1 / axes))} nodes, or `sampled`."
            )
        node, mass = map(torch.from_numpy, np.polynomial.hermite_e.hermegauss(nodes))
        grid = torch.cartesian_prod(*[node] * axes).reshape(-1, axes)
        masses = torch.cartesian_prod(*[mass / mass.sum()] * axes).reshape(-1, axes).prod(1)
        biases = grid[:, -1] if self.zeta else torch.zeros(len(grid), dtype=torch.float64)
        parts = [t.split(self._rows()) for t in (grid[:, : len(basis)] @ basis, biases, masses)]
        spare = torch.eye(self.d, dtype=torch.float64) - basis.T @ basis
        sums: list[Tensor] = []
        for w, b, mass in zip(*parts, strict=True):
            more = [torch.tensordot(mass, v, 1) for v in self._of_units(w, b, spare)]
            sums = [one + new for one, new in zip(sums, more, strict=True)] if sums else more
        return sums

    def _of_units(self, normal: Tensor, biases: Tensor, spare: Tensor) -> tuple[Tensor, ...]:
        """The contribution of each unit; weights in the range of `spare` are averaged in closed form."""
        home, d, half = normal.device, self.d, self.outputs / 2
        tensors = self.inputs, self.points, self.psi, self.metric, self.sigma**2 * spare
        inputs, points, psi, g, spare = (t.to(home) for t in tensors)
        w, b = self.sigma * normal, self.zeta * biases[:, None]
        hidden = self.phi(w @ inputs.T + b)  # (N, p)
        tilt = half * ((hidden @ psi) * hidden).sum(1)[:, None]  # (N, 1)
        mean = half * (self.psi * self.kernel).sum().item()
        square = self.slope(w @ points.T + b).expand(len(w), len(points)) ** 2  # (N, r)
        outer = (w[:, :, None] * w[:, None, :] + spare)[:, None]  # (N, 1, d, d)
        inverse = torch.linalg.inv(g)
        T = square * torch.einsum("rde,nxed->nr", inverse, outer)
        rest = inverse @ spare
        noise = 2 * (rest * rest.mT).sum((1, 2))  # variance of what T/square averages over
        shift = (tilt * square)[:, :, None, None] * outer - mean * g
        learning = (tilt * T - mean * d) / 2
        fluctuation = -(T**2 + square**2 * noise) / 8 - d**2 / 8 + d / 4
        return shift, learning, fluctuation, learning + fluctuation

    def _rows(self) -> int:
        """Units that fit in a block."""
        return max(1, BLOCK // (len(self.points) * self.d**2))


def _check_shapes(inputs: Tensor, labels: Tensor, points: Tensor) -> None:
    named = {"inputs": inputs, "labels": labels, "points": points}
    for name, value in named.items():
        if not isinstance(value, Tensor):
            raise InputError(f"{name} must be a tensor, not {type(value).__name__}.")
        if value.dtype != torch.float64 or value.ndim != 2 or value.device.type != "cpu":
            raise InputError(
                f"{name} must be float64 with two axes, on the CPU (a run moves them), not "
                f"{value.dtype} {tuple(value.shape)} on {value.device}."
            )
        if not value.numel() or not torch.isfinite(value).all():
            raise InputError(
                f"{name} must be finite and not empty, but {value.tolist()} was given."
            )
    if len(labels) != len(inputs) or points.shape[1] != inputs.shape[1]:
        shapes = ", ".join(f"{name} {tuple(value.shape)}" for name, value in named.items())
        raise InputError(
            f"inputs (p, d) need labels (p, m) and points (r, d), but the shapes are {shapes}."
        )
