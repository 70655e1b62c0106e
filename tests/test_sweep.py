"""How a sweep of widths is run: in blocks, kept and resumed, and never on bad input."""

import os
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from analytic.activations import erf, relu
from analytic.expressions.arguments import InputError
from numeric.estimate import Estimate
from numeric.experiments.deep_width import KernelSweep, sweep
from numeric.infinite.finite_width import FiniteNetwork
from numeric.infinite.network import FullyConnected
from numeric.infinite.parametrisation import Standard
from test_progress import terminal_for

X = torch.tensor([[1.0, 0.5, -0.3], [-0.9, 0.8, 0.2], [0.2, -1.5, 0.4]], dtype=torch.float64)
NET = FullyConnected(erf, 2, 1.5, 0.3)
RELU = replace(NET, activation=relu)
SMALL = KernelSweep(NET, X, widths=(3, 5, 8), draws=50)


def drawing(monkeypatch: pytest.MonkeyPatch, stop_at: int | None = None) -> list[FiniteNetwork]:
    """Every network that a sweep draws from now on, until it is interrupted."""
    drawn: list[FiniteNetwork] = []

    def draw(net: FullyConnected, width: int, *sizes: int, **kind: object) -> FiniteNetwork:
        if width == stop_at:
            raise KeyboardInterrupt
        drawn.append(FiniteNetwork(net, width, *sizes, **kind))
        return drawn[-1]

    monkeypatch.setattr(sweep, "FiniteNetwork", draw)
    return drawn


def test_estimates_are_those_of_all_networks_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep, "BLOCK", 7 * 25)
    drawn = drawing(monkeypatch)
    result = replace(SMALL, widths=(5,)).run(progress=False)
    assert [len(net.layers[0].weight) for net in drawn] == [7] * 7 + [1]
    for approach, of in zip(
        (result.nngp, result.ntk), (FiniteNetwork.nngp, FiniteNetwork.ntk), strict=True
    ):
        whole = Estimate.of(torch.cat([of(net, X) for net in drawn]).detach())
        torch.testing.assert_close(approach.at[5].mean, whole.mean, rtol=1e-12, atol=1e-14)
        torch.testing.assert_close(approach.at[5].spread, whole.spread, rtol=1e-12, atol=1e-14)
        assert approach.at[5].count == 50


def test_an_interrupted_sweep_resumes_with_the_same_result(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    whole, stored_sweep = SMALL.run(progress=False), replace(SMALL, store=tmp_path / "kept")
    drawing(monkeypatch, stop_at=8)
    with pytest.raises(KeyboardInterrupt):
        stored_sweep.run(progress=False)
    assert len(list((tmp_path / "kept").iterdir())) == 2
    drawn = drawing(monkeypatch)
    resumed = stored_sweep.run(progress=False)
    assert [net.layers[1].weight.shape[-1] for net in drawn] == [8]
    for a, b in ((whole.nngp, resumed.nngp), (whole.ntk, resumed.ntk)):
        for width in SMALL.widths:
            assert torch.equal(a.at[width].mean, b.at[width].mean)
            assert torch.equal(a.at[width].spread, b.at[width].spread)


def test_what_was_kept_is_used_for_the_same_settings_only(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    stored_sweep = replace(SMALL, widths=(3,), store=tmp_path)
    stored_sweep.run(progress=False)
    changes = [
        {"seed": 1}, {"draws": 51}, {"x": X + 1e-9}, {"network": RELU}, {"dtype": torch.float32},
        {"network": FullyConnected(erf, 3, 1.5, 0.3)},
        {"network": replace(NET, parametrisation=Standard(1))},
        {"network": replace(NET, sigma_b=0.31)},
    ]  # fmt: skip
    drawn = drawing(monkeypatch)
    for count, change in enumerate(changes, 1):
        replace(stored_sweep, **change).run(progress=False)
        assert len(drawn) == count, change
    stored_sweep.run(progress=False)
    assert len(drawn) == len(changes)


def test_half_a_file_is_never_taken_for_a_result(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def full(_: int) -> None:
        raise OSError("No space left on device")

    stored_sweep = replace(SMALL, widths=(3,), store=tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="space"):
            stored_sweep.run(progress=False)
    assert not list(tmp_path.iterdir())
    stored_sweep.run(progress=False)
    (whole,) = tmp_path.glob("*.pt")
    whole.write_bytes(b"half")
    with pytest.raises(InputError, match="delete it"):
        stored_sweep.run(progress=False)


def test_every_width_and_seed_has_draws_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fits over widths take them for independent."""
    drawn = drawing(monkeypatch)
    SMALL.run(progress=False)
    replace(SMALL, seed=1).run(progress=False)
    firsts = [net.layers[0].weight.detach().flatten()[:100] for net in drawn]
    assert len(firsts) == 6
    for k, one in enumerate(firsts):
        for other in firsts[:k]:
            assert not torch.isin(one, other).any()


def test_progress_is_shown_where_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = terminal_for(monkeypatch)
    SMALL.run(progress=False)
    assert shown.getvalue() == ""
    SMALL.run()
    assert "networks" in shown.getvalue()


def test_single_precision_is_close_and_widths_do_not_disturb_each_other() -> None:
    single = replace(SMALL, dtype=torch.float32, widths=(8, 5)).run(progress=False)
    double = replace(SMALL, widths=(5,)).run(progress=False)
    torch.testing.assert_close(single.ntk.at[5].mean, double.ntk.at[5].mean, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: replace(SMALL, widths=(0, 4)), "width must be a whole number at least 1"),
        (lambda: replace(SMALL, widths=()), "widths"),
        (lambda: replace(SMALL, widths=(4, 4, 8)), "differ"),
        (lambda: replace(SMALL, widths=(4.5,)), "whole"),
        (lambda: replace(SMALL, draws=1), "draws must be a whole number at least 2"),
        (lambda: replace(SMALL, x=X / 0), "NaN or infinite"),
        (lambda: replace(SMALL, x=X[0]), r"but \(3,\) was given"),
        (lambda: replace(SMALL, x="points"), "must be an array of numbers"),
        (lambda: replace(SMALL, network=erf), "FullyConnected"),
        (lambda: replace(SMALL, device="no such device").run(), "auto"),
        (lambda: replace(SMALL, x=1e25 * X, network=RELU, dtype=torch.float32).run(), "overflow"),
    ],
)
def test_bad_input_is_refused_with_a_reason(make: object, words: str) -> None:
    with pytest.raises(InputError, match=words):
        make()
