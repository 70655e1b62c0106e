r"""Does automatic differentiation overestimate curvature? Nested differentiation against exact values.

Appendix G 1 of the curvature paper avoids automatic differentiation, because it "leads to a consistent
overestimation of the Ricci curvature quantities due to numerical issues". `compare` puts five numbers side
by side. Nested differentiation with the textbook's contraction gives R, with errors of both signs that grow
like the fourth power of the Jacobian's condition number: digits go, at 1e4 all of them, but no factor comes
in. The printed formula (B.15) gives 3R. As R is negative at 98 of 100 points of a wide network of
sigmoids, R lies above 3R there: the constant factor is what looks like overestimation. With the sign of the
$\Gamma\Gamma$ terms flipped, differentiation gives 3R too, on metrics of shallow networks; but what the
flipped formula computes is no scalar, for in spherical coordinates it finds flat space curved.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from mpmath import mp
from torch import Tensor
from torch.func import jacrev, vmap

from analytic.finite.units import Units
from numeric.geometry.derivatives import prepare
from numeric.geometry.ricci import ricci_scalar
from numeric.inputs import ArrayLike, InputError, points, require_instance, whole
from numeric.models.model import Model, ModelLike
from numeric.models.shallow import ShallowNetwork

__all__ = ["CurvatureComparison", "compare", "flipped", "printed", "ricci_by_nesting", "textbook"]

Derive = Callable[[Callable[..., Tensor]], Callable[..., Tensor]]  # torch.func.jacrev or jacfwd
Contraction = Callable[
    [Tensor, Tensor], Tensor
]  # Gamma[k, i, j], its derivative [..., l] -> Ricci[i, j]


def textbook(gamma: Tensor, slope: Tensor) -> Tensor:
    r"""$R_{ij} = \partial_k\Gamma^k_{ij} - \partial_j\Gamma^k_{ik} + \Gamma^k_{kl}\Gamma^l_{ij} -
    \Gamma^k_{jl}\Gamma^l_{ik}$."""
    return _linear(slope) + _quadratic(gamma)


def flipped(gamma: Tensor, slope: Tensor) -> Tensor:
    """The same with the sign of the products of Gamma turned, as in the public code for the paper."""
    return _linear(slope) - _quadratic(gamma)


def _linear(slope: Tensor) -> Tensor:
    return torch.einsum("kijk->ij", slope) - torch.einsum("kikj->ij", slope)


def _quadratic(gamma: Tensor) -> Tensor:
    first = torch.einsum("kkl,lij->ij", gamma, gamma)
    return first - torch.einsum("kjl,lik->ij", gamma, gamma)


def ricci_by_nesting(
    model: ModelLike,
    x: Tensor,
    layer: str | None = None,
    contraction: Contraction = textbook,
    derive: Derive = jacrev,
    batch_size: int | None = None,
) -> Tensor:
    """The Ricci scalar (m,) from the metric's second derivatives, which are third ones of the features.

    model: a model, or a map (m, d) -> (m, n). x: points (m, d). layer: of a model, by its name.
    batch_size: points at once.

    >>> def sphere(x):
    ...     height, angle = x.T
    ...     radius = (1 - height**2).sqrt()
    ...     return torch.stack([radius * angle.cos(), radius * angle.sin(), height], 1)
    >>> round(ricci_by_nesting(sphere, torch.tensor([[0.3, 0.5]], dtype=torch.float64)).item(), 9)
    2.0
    """

    def metric(point: Tensor) -> Tensor:
        J = derive(lambda y: f(y[None])[0])(point)
        return J.T @ J

    def christoffel(point: Tensor) -> Tensor:
        slope = derive(metric)(point)  # [i, j, l]
        lowered = (slope + slope.transpose(1, 2) - slope.permute(2, 0, 1)) / 2  # [k, i, j]
        return torch.einsum("kl,lij->kij", torch.linalg.inv(metric(point)), lowered)

    def scalar(point: Tensor) -> Tensor:
        ricci = contraction(christoffel(point), derive(christoffel)(point))
        return torch.einsum("ij,ij->", torch.linalg.inv(metric(point)), ricci)

    prepare()
    with Model.of(model, layer).on(x) as f:
        return vmap(scalar, chunk_size=batch_size)(f.points)


def printed(network: ShallowNetwork, x: ArrayLike) -> Tensor:
    """(B.15) as it stands, a sum over triples of units, at points (m, 2); for two inputs."""
    x = _require_plane(network, x)
    slope, bend = (part(network.preactivations(x)) for part in network.slopes)
    w, n = network.weights, len(network.weights)
    M = w[:, None, 0] * w[None, :, 1] - w[:, None, 1] * w[None, :, 0]
    total = [
        (M**2 * (M.mT @ (p[:, None] ** 2 * M)) * (p * q)[:, None] * (p * q)).sum()
        for p, q in zip(slope, bend, strict=True)
    ]
    return -3 * torch.stack(total) / (n**3 * torch.linalg.det(network.metric(x)) ** 2)


def _require_plane(network: ShallowNetwork, x: ArrayLike) -> Tensor:
    """Points (m, 2) with the dtype and on the device of a network of two inputs."""
    require_instance("network", network, ShallowNetwork, "ShallowNetwork.gaussian(...)")
    if network.weights.shape[-1] != 2:
        raise InputError(
            f"(B.15) is for 2 inputs, but the network has {network.weights.shape[-1]}: use ricci_scalar."
        )
    return points(x, network.weights.device, d=2).to(network.weights.dtype)


@dataclass(frozen=True, eq=False)
class CurvatureComparison:
    """The Ricci scalar at each point, five ways; relative errors are those to `exact`."""

    exact: Tensor  # in the digits asked for, rounded
    printed: Tensor  # (B.15)
    closed: Tensor
    gauss: Tensor
    nested: Tensor
    flipped: Tensor
    condition: Tensor

    def error(self, way: str) -> Tensor:
        """(way - exact)/|exact|, signed."""
        return (getattr(self, way) - self.exact) / self.exact.abs()


def compare(network: ShallowNetwork, x: ArrayLike, digits: int = 40) -> CurvatureComparison:
    """The Ricci scalar at points (m, 2), five ways, for a network of few units and two inputs.

    The exact value, in so many digits, takes pairs of units one by one.

    >>> from analytic.activations import erf
    >>> net = ShallowNetwork.gaussian(erf, 4, 2, 1.0, 1.0, generator=torch.Generator().manual_seed(0))
    >>> result = compare(net, [[0.3, 0.2]])
    >>> result.error("gauss").abs().item() < 1e-6, round((result.printed / result.exact).item(), 6)
    (True, 3.0)
    """
    x = _require_plane(network, x)
    with mp.workdps(whole("digits", digits)):
        rows, biases = network.weights.tolist(), network.biases.tolist()
        units = [Units.of(network.activation, rows, biases, point) for point in x.tolist()]
        values = [float(unit.scalar()) for unit in units]
    exact = x.new_tensor(values)
    closed, gauss = ricci_scalar(network, x), ricci_scalar(lambda y: network(y), x)  # a plain map
    return CurvatureComparison(
        exact=exact,
        printed=printed(network, x),
        closed=closed.value,
        gauss=gauss.value,
        nested=ricci_by_nesting(network, x),
        flipped=ricci_by_nesting(network, x, contraction=flipped),
        condition=closed.condition,
    )
