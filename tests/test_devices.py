"""Formulas, infinite networks, geometry and geodesics run on an accelerator, or on the trial device.

Numbers are those of the CPU, results are where the inputs are, and copies to the host do not grow with the
problem. The rest of `numeric` is in `test_devices_training`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import sympy as sp
import torch
from torch import Tensor, nn

from analytic import activations as A
from analytic import catalogue
from analytic.activations.activation import activation
from analytic.expressions.symbols import z
from device_checks import CPU, F64, Call, Device, check, network, normal
from numeric import geodesics, geometry, infinite
from numeric.experiments import autodiff_curvature
from numeric.infinite.finite_width import FiniteNetwork
from numeric.inputs import InputError
from numeric.kernels.spectrum import GramSpectrum
from numeric.models import ResNet, hidden_layer
from numeric.models.shallow import ShallowNetwork

# Formulas and infinite networks: points grow.


def formula(name: str, device: Device, n: int) -> Any:
    fixed = {"d": 3, "depth": 2, "q": 2}
    args = {
        arg.name: fixed.get(arg.name, 0.3 + k / 9 + normal(device, 3 * n, seed=k).abs() / 20)
        for k, arg in enumerate(catalogue[name].args)
    }
    return catalogue[name].torch(**args)


def mixed(device: Device, n: int) -> Any:
    """Numbers may be tensors of the CPU, and come first."""
    r = normal(device, 3 * n)
    return catalogue["nngp.erf.ricci"].torch(d=3, sigma=torch.tensor(1.5), zeta=0.3, r=r)


def kernel(act: Any, device: Device, n: int) -> Any:
    """Points are repeated, so that quadratures need as many nodes."""
    net = infinite.FullyConnected(act, 2, 1.4, 0.2)
    x, y = normal(device, 3, 2).repeat(n, 1), normal(device, 2, 2, seed=1).repeat(n, 1)
    return net.nngp(x, y), net.ntk(x, y), net.nngp(x)


def kernel_metrics(device: Device, n: int) -> Any:
    net, x = infinite.FullyConnected(A.erf, 2, 1.4, 0.2), normal(device, 3 * n, 2)
    return geometry.metric(net.nngp, x), geometry.metric(0.5 * net.ntk * net.nngp + net.ntk, x)


def quadrature(device: Device, n: int) -> Tensor:
    net = infinite.FullyConnected(activation("arc", sp.atan(z)), 1, 0.5, 0.2)
    return net.nngp(normal(device, 2, 2).repeat(n, 1), normal(device, 1, 2, seed=1))


COMPOSED = {
    "convolution": [
        infinite.Convolution(3),
        A.relu,
        infinite.AveragePool(),
        infinite.SelfAttention(),
        A.erf,
    ],
    "p4": [infinite.Lift(infinite.groups.p4, infinite.Window(3)), infinite.LayerNorm(), A.relu],
    "group": [
        infinite.Lift(infinite.groups.torus(4), [0, 1, 5]),
        A.relu,
        infinite.GroupConvolution([0, 1]),
        infinite.Residual([A.relu, infinite.GroupConvolution([0, 4])], []),
        infinite.Dropout(0.2),
    ],
}


def composed(name: str, device: Device, n: int) -> Any:
    """Sixteen images, of two kinds: all tiles, and all kinds of pairs, are there in either problem."""
    net = infinite.Network([*COMPOSED[name], infinite.GlobalPool(), infinite.Dense()], 1.4, 0.2)
    x, y = normal(device, 2, 1, 4, 4).repeat(8 * n, 1, 1, 1), normal(device, 1, 1, 4, 4, seed=1)
    return net.nngp(x, y), net.ntk(x, y), net.ntk(x), net.ntk.diagonal(x)


SPHERICAL = [
    infinite.S2Convolution(3), A.relu, infinite.SO3Convolution(2), A.erf, infinite.GroupPool(),
    infinite.Dense(),
]  # fmt: skip


def spherical(device: Device, n: int) -> Any:
    net = infinite.Network(SPHERICAL, 1.4, 0.2)
    x, y = normal(device, 2, 1, 4).repeat(8 * n, 1, 1), normal(device, 1, 1, 4, seed=1)
    atoms = infinite.spheres.SumOverAtoms(net.nngp)(x[:, None], y[:, None])
    return net.nngp(x, y), net.ntk(x, y), net.ntk(x), net.ntk.diagonal(x), atoms


def spherical_twin(device: Device, n: int) -> Tensor:
    module = infinite.Network(SPHERICAL).finite(4, shape=(1, 4), device=device)
    with torch.no_grad():
        return module(normal(device, 2 * n, 1, 4))


def composed_twin(device: Device, n: int) -> Tensor:
    net = infinite.Network([*COMPOSED["convolution"], infinite.GlobalPool(), infinite.Dense()])
    module = net.finite(4, shape=(1, 4, 4), device=device)
    with torch.no_grad():
        return module(normal(device, 2 * n, 1, 4, 4))


def group_average(device: Device, n: int) -> Tensor:
    flat = infinite.Network([infinite.Flatten(), infinite.Dense(), A.erf, infinite.Dense()]).ntk
    kernel = infinite.groups.Averaged(flat, infinite.groups.p4)
    infinite.assert_equivariant(kernel, infinite.groups.p4, normal(device, 2, 1, 4, 4))
    return kernel(normal(device, 2 * n, 1, 4, 4))


def moved(device: Device, n: int) -> Any:
    """Groups and grids of rotations are tables of the host, and act where signals are."""
    x, shifts = normal(device, 2 * n, 1, 4), infinite.groups.Action(infinite.groups.cyclic(4))
    turns, nodes = infinite.spheres.Rotations.random(3), infinite.spheres.SphereGrid(3)
    flat = infinite.Network([infinite.GlobalPool(), infinite.Dense(), A.erf, infinite.Dense()]).nngp
    infinite.assert_invariant(flat, shifts, x)
    values = nodes.values(x)
    signals = infinite.spheres.charges_on_a_sphere(
        2 * n, charges=2, band_limit=2, device=device
    ).signals
    unit = normal(device, 3 * n, 3)
    unit = unit / unit.norm(dim=1, keepdim=True)
    return (
        infinite.groups.orbit(shifts, x),
        turns.orbit(x),
        values,
        nodes.coefficients(values),
        signals,
        (
            infinite.spheres.RotationGrid(2).mean(normal(device, 32, n)),
            infinite.spheres.harmonics(unit, 3).to(device),
        ),
    )


def standard(device: Device, n: int) -> Any:
    """Tangent kernels of the standard parametrisation, of centred networks trained from 0."""
    kind = {"parametrisation": infinite.Standard(64)}
    net, x = infinite.FullyConnected(A.relu, 1, 1.4, 0.2, **kind), normal(device, 5 * n, 3)
    y, new = normal(device, 5 * n, seed=1), normal(device, 4 * n, 3, seed=2)
    result = infinite.gradient_flow(net, x, y, new, ridge=0.1, initial=infinite.ZeroInitial())
    return net.ntk(x), result.mean


def predicted(predict: Callable[..., Any], device: Device, n: int) -> Any:
    net, x = infinite.FullyConnected(A.relu, 1, 1.4, 0.2), normal(device, 5 * n, 3)
    result = predict(net, x, normal(device, 5 * n, 2, seed=1), normal(device, 4 * n, 3, seed=2))
    return result.mean, result.covariance, result.std


def evidence(device: Device, n: int) -> Any:
    net, x = infinite.FullyConnected(A.relu, 1, 1.4, 0.2), normal(device, 5 * n, 3)
    result = infinite.log_marginal_likelihood(net, x, normal(device, 5 * n, seed=1), 0.3)
    return result.value, result.gradient


def spectrum(device: Device, n: int) -> Any:
    x = normal(device, 5 * n, 3 * n)
    result = GramSpectrum.of(x @ x.T, 0.1)
    return result.values, result.filters(normal(device, 2, seed=1).abs())


INFINITE: dict[str, Call] = {
    **{
        name: partial(formula, name)
        for name in ("nngp.erf.kernel", "nngp.erf.ricci", "spline.uniform.rf", "relu.c_squared")
    },
    "nngp.erf.ricci, mixed": mixed,
    "FullyConnected, relu": partial(kernel, A.relu),
    "FullyConnected, erf": partial(kernel, A.erf),
    "FullyConnected, metrics": kernel_metrics,
    "FullyConnected, quadrature": quadrature,
    **{f"Network, {name}": partial(composed, name) for name in COMPOSED},
    "Network, finite": composed_twin,
    "Network, sphere": spherical,
    "Network, sphere, finite": spherical_twin,
    "Averaged": group_average,
    "orbits, grids": moved,
    "Standard, ZeroInitial": standard,
    "gradient_flow": partial(predicted, infinite.gradient_flow),
    "gradient_flow, early": partial(predicted, partial(infinite.gradient_flow, t=2.0, ridge=0.1)),
    "posterior": partial(predicted, partial(infinite.posterior, noise=0.3)),
    "log_marginal_likelihood": evidence,
    "GramSpectrum": spectrum,
}


# Geometry: points grow.


def wavy(x: Tensor) -> Tensor:
    """A map of no known layers."""
    return torch.stack([x.sin().prod(1), x.square().sum(1), (x[:, 0] + x[:, 1]).exp()], 1)


def hidden(device: Device) -> nn.Module:
    return network(device, 2, 5)


def deep(device: Device) -> nn.Module:
    return network(device, 2, 4, 3)


def rectified(device: Device) -> nn.Module:
    return network(device, 2, 4, 3, phi=nn.ReLU)


def saturated(device: Device) -> nn.Module:
    """Its Jacobians have condition numbers that one matrix does not hold."""
    net = deep(device)
    net[0].weight.data.mul_(30)
    return net


def measured(measure: Callable[..., Any], made: Any, device: Device, n: int) -> Any:
    features = wavy if made is wavy else made(device)
    return measure(features, normal(device, 2, 2).repeat(n, 1) / 2, progress=False)


def shallow(device: Device, n: int) -> Any:
    net = ShallowNetwork(A.erf, normal(device, 9, 2), normal(device, 9, seed=1))
    x = normal(device, 4 * n, 2, seed=2)
    return net(x), net.metric(x), net.magnification(x), net.ricci_scalar(x)


def finite(device: Device, n: int) -> Any:
    described = infinite.FullyConnected(A.relu, 2, 1.4, 0.2)
    net = FiniteNetwork(described, 6, 2, generator=torch.Generator(device).manual_seed(0), stack=2)
    x = normal(device, 4 * n, 2, seed=2)
    with torch.no_grad():
        return net(x), net.nngp(x), net.ntk(x)


def resnet(device: Device, n: int) -> Tensor:
    net = ResNet((1, 1, 1, 1), 4, generator=torch.Generator().manual_seed(0), **F64).to(device)
    with torch.no_grad():
        return net.eval()(normal(device, n, 3, 8, 8))


def five_ways(device: Device, n: int) -> Any:
    """Exact values are for the host, point by point."""
    net = ShallowNetwork(A.erf, normal(device, 4, 2), normal(device, 4, seed=1))
    result = autodiff_curvature.compare(net, normal(device, n, 2, seed=2), digits=20)
    return result.exact, result.printed, result.closed, result.gauss


def nested(device: Device, n: int) -> Tensor:
    """Differentiation three times loses digits, so that both contractions agree to fewer."""
    return autodiff_curvature.ricci_by_nesting(hidden(device), normal(device, 3 * n, 2) / 2)


ONE = geodesics.Search(starts=1)
GEOMETRY: dict[str, Call] = {
    **{
        f"{measure.__name__}, {made.__name__}": partial(measured, measure, made)
        for measure, maps in {
            geometry.metric: (hidden, deep),
            geometry.log_volume: (hidden, rectified, saturated),
            geometry.spectrum: (wavy, saturated),
            geometry.ricci_scalar: (hidden, wavy),
        }.items()
        for made in maps
    },
    "log_volume_estimate, wavy": partial(
        measured, partial(geometry.log_volume_estimate, probes=4), wavy
    ),
    "ricci_estimate, wavy": partial(measured, partial(geometry.ricci_estimate, probes=4), wavy),
    "ShallowNetwork": shallow,
    "autodiff_curvature.compare": five_ways,
    "ricci_by_nesting": nested,
    "FiniteNetwork": finite,
    "ResNet": resnet,
}


# Geodesics: SciPy solves them on the host, and takes derivatives from the device at every step.


def straight(device: Device, n: int) -> nn.Module:
    """A linear map into more dimensions, whose geodesics take as many steps in any of them."""
    return network(device, 2, 3 * n, phi=nn.Identity)


def joined(device: Device, n: int) -> Any:
    p, q = normal(device, 2, 2) / 9
    path = geodesics.between(hidden(device), p, q, search=ONE)
    return path.length, path.log, path.at([0.3] * n)


def all_joined(device: Device, n: int) -> Any:
    p, q = normal(device, 2, 2) / 9
    paths = geodesics.several(hidden(device), p, q, search=ONE)
    return [path.at([0.3] * n) for path in paths], geodesics.distance(
        hidden(device), p, q, search=ONE
    )


def relaxed(device: Device, n: int) -> Any:
    p, q = normal(device, 2, 2, seed=1)
    path = geodesics.relax(straight(device, n), p, q, segments=4, search=ONE)
    return path.length, path.at(0.3)


def shot(device: Device, n: int) -> Any:
    p, v = normal(device, 2, 2) / 9
    ray = geodesics.shoot(hidden(device), p, v, tolerance=1e-4)
    return ray.length, ray.end, ray.at([0.5] * n)


def apart(device: Device, n: int) -> Tensor:
    return geodesics.distances(
        straight(device, n), normal(device, 2, 2), search=ONE, progress=False
    )


def averaged(device: Device, n: int) -> Any:
    result = geodesics.mean(straight(device, n), normal(device, 2, 2), search=ONE, progress=False)
    return result.point, result.variance, result.geodesics[0].at(0.5)


GEODESICS: dict[str, Call] = {
    "between": joined, "several, distance": all_joined, "distances": apart, "relax": relaxed,
    "shoot": shot, "mean": averaged,
}  # fmt: skip


CALLS = INFINITE | GEOMETRY | GEODESICS


@pytest.mark.parametrize("name", CALLS)
def test_calls_run_where_their_inputs_are(name: str, device: Device) -> None:
    check(
        CALLS[name],
        device,
        drawn=name in ("FiniteNetwork", "Network, finite", "Network, sphere, finite"),
        solver=name in GEODESICS,
    )


def test_inputs_on_another_device_are_refused(device: Device) -> None:
    weights, points = normal(CPU, 5, 2), normal(device, 3, 2)
    with pytest.raises(InputError, match=f"on {device}"):
        hidden_layer(ShallowNetwork(A.erf, weights, weights[:, 0])).preactivations(points)
    net = infinite.FullyConnected(A.erf)
    with pytest.raises(InputError, match=f"targets are torch.float64 on {device}, but .* on cpu"):
        infinite.gradient_flow(net, weights[:3], points)
