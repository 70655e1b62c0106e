"""A regression problem on the sphere that needs no files: the energy of charges, whatever their rotation."""

from __future__ import annotations

import torch

from numeric.infinite.spheres.harmonics import harmonics
from numeric.infinite.spheres.molecules import SphericalProblem
from numeric.inputs import InputError, generator_for, positive, resolve, whole

__all__ = ["charges_on_a_sphere"]


def charges_on_a_sphere(
    count: int,
    seed: int = 0,
    charges: int = 4,
    band_limit: int = 6,
    softening: float = 0.3,
    device: str | torch.device = "cpu",
) -> SphericalProblem:
    r"""Charges at random places of the unit sphere as signals, with their energy as the target.

    Parameters: `count` signals, each of so many positive `charges`, between 1/2 and 3/2. A signal is
    the sum of point charges below the band limit, with degree l damped as a Gaussian of that width does.
    Returned are signals (count, 1, band_limit^2), whose mean square has mean 1, and the energies
    $\sum_{i<j} q_iq_j/\sqrt{|x_i-x_j|^2+s^2}$ with s the `softening`, (count,), which no rotation changes.
    Refused are fewer than two charges.

    >>> problem = charges_on_a_sphere(5)
    >>> problem.signals.shape, problem.targets.shape
    (torch.Size([5, 1, 36]), torch.Size([5]))
    """
    if whole("charges", charges) < 2:
        raise InputError("charges = 1 was given, but a pair is the least that has an energy.")
    n, L = whole("count", count), whole("band_limit", band_limit)
    s = positive("softening", softening)
    generator = generator_for("charges", whole("seed", seed, least=0))
    places = torch.randn(n, charges, 3, generator=generator, dtype=torch.float64)
    places = places / places.norm(dim=2, keepdim=True)
    q = 0.5 + torch.rand(n, charges, generator=generator, dtype=torch.float64)
    degrees = torch.cat([torch.full((2 * l + 1,), l, dtype=torch.float64) for l in range(L)])
    damping = torch.exp(-degrees * (degrees + 1) / (2 * L**2))
    points = harmonics(places.flatten(0, 1), L).unflatten(0, (n, charges))
    # E q^2 = 13/12 and E q = 1; different charges meet at l = 0 alone
    square = charges * 13 / 12 * damping.square().sum() + charges * (charges - 1)
    signals = torch.einsum("nk,nkc->nc", q, points) * damping / square.sqrt()
    apart = torch.sqrt((places[:, :, None] - places[:, None]).square().sum(3) + s * s)
    energies = (q[:, :, None] * q[:, None] / apart).triu(1).sum((1, 2))
    place = resolve(device)
    return SphericalProblem(signals[:, None].to(place), energies.to(place))
