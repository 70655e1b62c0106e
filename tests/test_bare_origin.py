"""Geometry at x = 0 without bias, where the variance vanishes: what has a limit there is that limit."""

import numpy as np
import pytest
import torch
from mpmath import mpf

from analytic import catalogue
from analytic.activations import affine, cosine, elu
from analytic.geometry import nngp, ntk

AT = {"sigma": "1.3", "zeta": 0}
ELU = {"elu": elu, "scaled": elu.scaled(2), "affine": affine(elu, 3)}


@pytest.mark.parametrize("name", ELU)
@pytest.mark.parametrize("what", [nngp.ricci, ntk.ricci, ntk.magnification])
def test_a_slope_that_bends_at_zero_leaves_a_term_in_the_norm_and_a_limit(name, what) -> None:
    formula = what(ELU[name])
    for d in (2, 5):
        at = {"d": d, **AT, **({"xi": "0.6"} if what is not nngp.ricci else {})}
        limit = formula.evaluate(25, r=0, **at)
        far, near = (abs(formula.evaluate(40, r=f"1e-{k}", **at) - limit) for k in (8, 9))
        assert 9 < far / near < 11  # as |x|
        floats = {k: float(v) if k != "d" else v for k, v in at.items()}
        radii = np.array([0.0, 1e-8, 0.5])
        for values in (
            formula.numpy(r=radii, **floats),
            formula.torch(r=torch.tensor(radii), **floats),
        ):
            assert abs(mpf(float(values[0])) / limit - 1) < 1e-13
            assert abs(mpf(float(values[1])) / limit - 1) < 1e-7
        if what is ntk.ricci:
            assert ntk.origin(ELU[name]).evaluate(25, **at) == limit


def test_the_cosine_has_no_volume() -> None:
    at = {"sigma": 2, "zeta": 0, "r": 0}
    assert nngp.radial(cosine(1)).evaluate(**at) == nngp.radial(cosine(1)).numpy(**at) == 0
    volume = nngp.magnification(cosine(1))
    assert volume.evaluate(d=3, **at) == volume.numpy(d=3, **at) == 0


@pytest.mark.parametrize("q", [0.55, 0.6, 0.7])
def test_a_slow_pole_is_a_pole(q) -> None:
    """R goes as |x|^(-2 q^2): where |x|^2 falls to a quarter, it grows by less than 2."""
    at = {"d": 3, "sigma": 1.0, "zeta": 0.0, "depth": 2, "q": q}
    assert catalogue["deep.relu_power.nngp.ricci"].numpy(r=0.0, **at) == -np.inf


def test_later_layers_amplify_a_tangent_kernel_twice() -> None:
    """Were the first variance divided by the growth, and not by its square, this would be called 0."""
    at = {"d": 3, "sigma": 30.0, "zeta": 0.0, "xi": 0.7, "depth": 8, "w": 1.0, "r": 0.0}
    ricci = catalogue["deep.cosine.ntk.ricci"]
    assert ricci.numpy(**at) == pytest.approx(float(ricci.evaluate(15, **at)), rel=1e-12, abs=0)
