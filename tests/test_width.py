"""Finite networks concentrate on the closed form, and refuse the printed one."""

import pytest
import torch

from analytic.activations import erf, monomial
from analytic.activations.activation import Activation
from analytic.expressions.arguments import InputError
from numeric.experiments.width import Sweep, WidthSweep
from numeric.inputs import resolve

AWAY = slice(1, None)  # at the origin R = 0, where thrice is no different


@pytest.fixture(scope="module", params=[erf, monomial(2)], ids=["erf", "quadratic"])
def sweep(request: pytest.FixtureRequest) -> Sweep:
    act: Activation = request.param
    return WidthSweep(act, widths=(100, 300, 1_000, 3_000, 10_000)).run(progress=False)


def test_widest_networks_agree_at_every_radius(sweep: Sweep) -> None:
    assert sweep.magnification.sigmas().max() < 4
    assert sweep.ricci.sigmas().max() < 4


def test_threefold_curvature_is_refused_at_every_radius(sweep: Sweep) -> None:
    assert sweep.ricci.sigmas(factor=3.0)[AWAY].min() > 4


def test_spread_falls_with_the_root_of_width(sweep: Sweep) -> None:
    for quantity in (sweep.magnification, sweep.ricci):
        assert -0.6 <= quantity.spread_slope().value <= -0.4


def test_memory_blocks_do_not_change_the_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    small = WidthSweep(erf, widths=(50,), realisations=7, radii=(0.5, 1.0))
    whole = small.run(progress=False).ricci.at[50]
    monkeypatch.setattr("numeric.experiments.width.BLOCK", 1)
    assert small._stacks(50) == [1] * 7
    split = small.run(progress=False).ricci.at[50]
    assert whole.count == split.count == 7
    torch.testing.assert_close(whole.mean, split.mean, rtol=1e-12, atol=0)


def test_a_seed_is_a_result() -> None:
    run = WidthSweep(erf, widths=(40,), realisations=3, seed=5).run
    assert torch.equal(run(progress=False).ricci.at[40].mean, run(progress=False).ricci.at[40].mean)


def test_bad_sweeps_and_devices_are_refused() -> None:
    with pytest.raises(InputError, match="realisations"):
        WidthSweep(erf, realisations=1)
    with pytest.raises(InputError, match="widths"):
        WidthSweep(erf, widths=())
    with pytest.raises(InputError, match="auto"):
        resolve("no such device")
    assert resolve("cpu").type == "cpu"
