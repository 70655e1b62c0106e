"""Every notebook runs through papermill in its quick profile, and its verdict holds."""

from pathlib import Path

import nbformat
import pytest

from notebooks.report import anatomy
from notebooks.running import runner
from notebooks.running.numbers import PLAY
from report_pages import check_page

REAL = Path(__file__).parents[2] / "shared" / "data"


@pytest.mark.parametrize("path", runner.find(()), ids=lambda path: path.stem)
def test_notebook_runs_and_passes_its_verdict(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Panels as they start; `make sweep` sees the frames of all stops.
    monkeypatch.setenv("KERNEL_GEOMETRY_FRAMES", "1000")
    source = runner.read(path)
    assert source.defaults["profile"] == "quick"
    assert anatomy.tagged(source.node, "verdict")
    (outcome,) = runner.run([path.stem], {}, 1, tmp_path)
    assert outcome.error is None, outcome.error
    assert {child.suffix for child in (tmp_path / "notebooks").iterdir()} == {
        ".ipynb",
        ".html",
        ".json",
    }
    executed = nbformat.read(tmp_path / "notebooks" / f"{path.stem}.ipynb", as_version=4)
    outputs = [output for cell in executed.cells for output in cell.get("outputs", ())]
    assert not [output.text for output in outputs if output.get("name") == "stderr"]
    recorded = anatomy.numbers(executed)
    played = [name for name in recorded if name.startswith(PLAY)]
    assert bool(played) == bool(anatomy.tagged(source.node, "play")), recorded
    check_page((tmp_path / "notebooks" / f"{path.stem}.html").read_text("utf-8"))


@pytest.mark.sweep
@pytest.mark.skipif(not REAL.is_dir(), reason="no real images and weights beside the project")
@pytest.mark.parametrize(
    ("name", "folders"),
    [
        ("16", {"images": "cifar-10-batches-bin"}),
        ("18", {"data": "cifar-10-batches-bin", "checkpoint": "weights/resnet20-12fca82f.th"}),
    ],
)
def test_verdicts_hold_on_real_images(
    name: str, folders: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Data of the user lead to cells that no default reaches; notebook 17 takes minutes on MNIST."""
    monkeypatch.setenv("KERNEL_GEOMETRY_FRAMES", "1000")
    parameters = {key: str(REAL / folder) for key, folder in folders.items()}
    (outcome,) = runner.run([name], parameters, 1, tmp_path)
    assert outcome.error is None, outcome.error


ELSEWHERE = {  # settings at ends of sliders, of notebooks that take seconds
    "01": {"activation": "monomial", "q": 10, "sigma": 0.1, "zeta": 3.0, "d": 1},
    "03": {"activation": "sine", "sigma": 3.0, "zeta": 0.0, "xi": 0.0, "depth": 10, "d": 3},
    "06": {"b": 0.0},
    "07": {"rounds": 0, "iterations": 0, "components": 8, "ridge": 1.0, "bandwidth": 1.0},
    "08": {"A": 0.2, "B": 8.0, "m": 10},
    "11": {"nodes": 100, "rate": 0.01, "step": 1, "x1": -1.0},
    "14": {"architecture": "S3", "width": 4, "draws": 100},
}


@pytest.mark.sweep
@pytest.mark.parametrize("name", ELSEWHERE)
def test_verdicts_hold_at_the_ends_of_sliders(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What -p accepts shall not fail in the middle of a notebook."""
    monkeypatch.setenv("KERNEL_GEOMETRY_FRAMES", "1000")
    (outcome,) = runner.run([name], ELSEWHERE[name], 1, tmp_path)
    assert outcome.error is None, outcome.error
