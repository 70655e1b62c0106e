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
