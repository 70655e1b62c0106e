"""A notebook over a grid: bad input refused, nothing run twice, failures told, numbers collected."""

import asyncio
import csv
import fcntl
import json
import pickle
import sys
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest

import disks
from analytic import InputError
from interrupts import interrupt
from notebooks.__main__ import main
from notebooks.running import runner, sweep

SOURCE = """
# %% [markdown]
# # Is a square a square?
# %% tags=["parameters"]
profile = "quick"
sigma, q, seed = 1.0, 2, 0
device = "cpu"
# %%
from pathlib import Path
from notebooks.panels.style import new_figure, save
with Path({marker!r}).open("a") as file:
    print(sigma, q, seed, file=file)
save(new_figure(), "01-figure-1")
# %% tags=["verdict"]
from notebooks.running.numbers import record
assert (sigma, q) != (2, 3), "two is not three"
record(power=sigma**q, loss=float("inf") if q == 3 else 0.5)
print(f"The power is {{sigma**q}}.")
"""
SLEEPS = """
# %% tags=["parameters"]
seed = 0
# %%
import os, pathlib, time
if seed:
    pathlib.Path({marker!r}).write_text(str(os.getpid()))
    time.sleep(60)
"""


def notebook(folder: Path, text: str = SOURCE) -> Path:
    """The file in which it notes every run."""
    marker = folder / "ran"
    (folder / "01_square.py").write_text(text.format(marker=str(marker)), "utf-8")
    return marker


def runs(marker: Path) -> list[str]:
    return sorted(marker.read_text().splitlines()) if marker.exists() else []


def test_a_sweep_finishes_what_it_can_and_does_nothing_twice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    marker, output = notebook(tmp_path), tmp_path / "out"
    command = ["sweep", "01", "sigma=1,2", "q=2:4", "--jobs", "2", "--output", str(output)]
    assert main(command, tmp_path) == 1
    printed = capsys.readouterr()
    assert "01_square: sigma = 1, 2; q = 2, 3: 4 settings\n" in printed.out
    assert f"1 of 4 settings failed; see {output / 'index.html'}\n" in printed.out
    assert printed.err == "FAILED sigma=2 q=3: AssertionError: two is not three\n"
    assert runs(marker) == ["1 2 0", "1 3 0", "2 2 0", "2 3 0"]

    rows = list(csv.DictReader((output / "results.csv").read_text("utf-8").splitlines()))
    shown = [(r["sigma"], r["q"], r["state"], r["power"], r["loss"]) for r in rows]
    assert shown == [
        ("1", "2", "passed", "1", "0.5"), ("1", "3", "passed", "1", "inf"),
        ("2", "2", "passed", "4", "0.5"), ("2", "3", "failed", "", ""),
    ]  # fmt: skip
    assert rows[2]["verdict"] == "The power is 4."
    assert rows[3]["error"] == "AssertionError: two is not three"
    assert all((output / row["page"]).exists() for row in rows)
    data = json.loads((output / "results.json").read_text("utf-8"))
    assert data["swept"] == {"sigma": [1, 2], "q": [2, 3]}
    assert data["settings"][2]["numbers"] == {"power": 4, "loss": 0.5}
    page = (output / "index.html").read_text("utf-8")
    assert 'alt="loss, power against sigma, q"' in page
    assert "AssertionError: two is not three" in page
    figures = {path.parts[-3] for path in output.glob("settings/*/figures/01-figure-1.png")}
    assert figures == {"sigma=1,q=2", "sigma=1,q=3", "sigma=2,q=2", "sigma=2,q=3"}

    # Again, with one value more: only what failed and what is new runs.
    marker.unlink()
    assert main([*command[:3], "q=2:5", *command[4:]], tmp_path) == 1
    assert runs(marker) == ["1 4 0", "2 3 0", "2 4 0"]
    assert "6 settings, 3 of them done before" in capsys.readouterr().out

    # A notebook that has changed is run anew.
    marker.unlink()
    notebook(tmp_path, SOURCE.replace("(2, 3)", "(2, 9)"))
    assert main([*command[:2], "sigma=2", "q=2,3", *command[4:]], tmp_path) == 0
    assert runs(marker) == ["2 2 0", "2 3 0"]
    assert "2 passed" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["01", "sigmo=1"], "No chosen notebook has 'sigmo': there is sigma"),
        (["07", "sigma=1"], "'07' is no notebook"),
        (["01", "sigma"], "NAME=VALUES is needed"),
        (["01", "sigma="], "NAME=VALUES is needed"),
        (["01", "=1"], "NAME=VALUES is needed"),
        (["01", "sigma=1,,2"], "sigma=1,,2 has an empty value"),
        (["01", "sigma=1,1.0"], "has 1.0 twice"),
        (["01", "q=2", "q=3"], "q was given twice"),
        (["01", "q=6:2"], "q=6:2 is an empty range: it begins at 6 and ends before 2"),
        (["01", "q=2:2"], "is an empty range"),
        (["01", "sigma=0.5:2"], "a range has two whole numbers, such as sigma=2:6"),
        (["01", "q=2:3:4"], "a range has two whole numbers"),
        (["01", "sigma=1,-2"], "sigma"),
        (["01", "q=2,2.5"], "q of 01_square must be of type int, like 2, but 2.5"),
        (["01", "sigma=1,wide"], "type float"),
        (["01", "profile=quick,fast"], "profile is quick or full, but 'fast' was given"),
        (["01", "profile=quick", "--profile", "full"], "profile was given twice"),
        (["01", "sigma=1", "--jobs", "0"], "at least 1"),
        (["01", "seed=0:20", "q=1:12"], "220 settings, more than 200: give --yes"),
        (["01", f"seed=0:{10**30}", "--yes"], f"{10**30} settings, but at most 100000 fit"),
    ],
)
def test_bad_input_is_refused_in_a_sentence(
    words: list[str], told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    notebook(tmp_path)
    output = tmp_path / "out"
    assert main(["sweep", *words, "--output", str(output)], tmp_path) == 2
    error = capsys.readouterr().err
    assert told in error
    assert error.count("\n") == 1
    assert not output.exists()


def test_a_large_sweep_asks_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    sweep.confirm(sweep.ASK, yes=False)
    sweep.confirm(sweep.ASK + 1, yes=True)
    asked: list[str] = []
    sweep.confirm(300, yes=False, ask=lambda text: asked.append(text) or "y")
    assert asked == ["These are 300 settings. Run them? [y/N] "]
    with pytest.raises(InputError, match="The 300 settings were not run"):
        sweep.confirm(300, yes=False, ask=lambda _: "")


def test_values_may_be_of_any_kind() -> None:
    from notebooks.__main__ import _literal

    grid = sweep.read_grid(
        ["widths=(1,2),(3,4)", "device=cpu,cuda:0", "delta=-inf,0", "q=-2:1"], _literal
    )
    assert {name: list(values) for name, values in grid.items()} == {
        "widths": [(1, 2), (3, 4)],
        "device": ["cpu", "cuda:0"],
        "delta": [-float("inf"), 0],
        "q": [-2, -1, 0],
    }
    assert sweep.count(grid) == 24


def test_names_of_folders_are_safe_and_differ() -> None:
    points = [{"device": "../a"}, {"device": "..:a"}, {"widths": (1, 2)}, {"x": "y" * 300}]
    names = [sweep._folder_name(point) for point in points]
    assert len(set(names)) == 4
    assert all("/" not in name and len(name) < 200 for name in names)


def test_two_sweeps_into_one_folder_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    marker, output = notebook(tmp_path), tmp_path / "out"
    output.mkdir()
    with (output / ".lock").open("w") as first:
        fcntl.flock(first, fcntl.LOCK_EX)
        assert main(["sweep", "01", "q=2,3", "--output", str(output)], tmp_path) == 2
    assert capsys.readouterr().err == (
        f"error: Another sweep is at work in {output}: wait for it, or give another --output.\n"
    )
    assert not runs(marker)


def test_a_folder_that_cannot_be_written_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    marker, command = notebook(tmp_path), ["sweep", "01", "q=2,3", "--output"]
    (tmp_path / "file").touch()
    assert main([*command, str(tmp_path / "file" / "out")], tmp_path) == 2
    assert "cannot be written (Not a directory)" in capsys.readouterr().err

    with monkeypatch.context() as patch:
        patch.setattr(Path, "mkdir", disks.read_only)
        assert main([*command, str(tmp_path / "out")], tmp_path) == 2
    error = capsys.readouterr().err
    assert "cannot be written (Read-only file system): give another --output." in error
    assert error.count("\n") == 1
    assert not runs(marker)


@pytest.mark.parametrize("where", ["standalone", "summary"])
def test_a_disk_that_fills_during_a_sweep_is_told(
    where: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    marker, output = notebook(tmp_path), tmp_path / "out"
    if where == "standalone":
        monkeypatch.setattr(runner, "standalone", disks.full)
    else:
        monkeypatch.setattr("notebooks.running.summary.page", disks.full)
    command = ["sweep", "01", "q=2", "--output", str(output)]
    assert main(command, tmp_path) == 2
    error = capsys.readouterr().err
    assert "cannot be written (No space left on device): give another --output." in error
    assert error.count("\n") == 1
    assert not (output / "index.html").exists()
    monkeypatch.undo()
    assert main(command, tmp_path) == 0
    assert len(runs(marker)) == (2 if where == "standalone" else 1)


def test_without_dask_a_scheduler_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    notebook(tmp_path)
    monkeypatch.setitem(sys.modules, "distributed", None)
    command = ["sweep", "01", "q=2", "--scheduler", "tcp://127.0.0.1:1", "--output"]
    assert main([*command, str(tmp_path / "out")], tmp_path) == 2
    assert "needs Dask, which is not installed: pip install" in capsys.readouterr().err


class Cluster:
    """As much of Dask as a sweep asks for; what it is sent must be fit to travel."""

    def __init__(self, address: str, timeout: float) -> None:
        if address != "tcp://host:1":
            raise OSError("nobody listens")
        self.worker = ThreadPoolExecutor(1)

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None:
        self.worker.shutdown()

    def submit(self, call: Callable[..., object], *words: object, pure: bool) -> Future[object]:
        call, words = pickle.loads(pickle.dumps((call, words)))
        return self.worker.submit(call, *words)

    def cancel(self, futures: list[Future[object]]) -> None: ...


def test_a_sweep_runs_where_an_event_loop_does(tmp_path: Path) -> None:
    """As in a cell of JupyterLab."""
    marker = notebook(tmp_path)

    async def cell() -> int:
        return main(["sweep", "01", "q=2", "--output", str(tmp_path / "out")], tmp_path)

    assert asyncio.run(cell()) == 0
    assert runs(marker) == ["1.0 2 0"]


def test_settings_are_sent_to_a_scheduler(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    marker, output = notebook(tmp_path), tmp_path / "out"
    dask = SimpleNamespace(Client=Cluster, as_completed=reversed)
    monkeypatch.setitem(sys.modules, "distributed", dask)
    command = ["sweep", "01", "sigma=2", "q=2:4", "--output", str(output), "--scheduler"]
    assert main([*command, "tcp://host:2"], tmp_path) == 2
    assert "No Dask scheduler answers at tcp://host:2 (OSError)" in capsys.readouterr().err
    assert main([*command, "tcp://host:1"], tmp_path) == 1
    assert "FAILED sigma=2 q=3: AssertionError: two is not three" in capsys.readouterr().err
    assert runs(marker) == ["2 2 0", "2 3 0"]


def test_a_cluster_of_ones_own_runs_the_settings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    distributed = pytest.importorskip("distributed", reason="install kernel-geometry[cluster]")
    marker, output = notebook(tmp_path), tmp_path / "out"
    command = ["sweep", "01", "sigma=2", "q=2:4", "--output", str(output), "--scheduler"]
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=2, processes=False, dashboard_address=None, protocol="tcp"
    ) as cluster:
        assert main([*command, cluster.scheduler_address], tmp_path) == 1
    assert runs(marker) == ["2 2 0", "2 3 0"]
    assert "AssertionError: two is not three" in capsys.readouterr().err
    assert main([*command, "tcp://127.0.0.1:1"], tmp_path) == 2
    assert "No Dask scheduler answers at tcp://127.0.0.1:1" in capsys.readouterr().err


def test_an_interrupt_stops_kernels_and_the_rest_is_resumed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    marker, output = notebook(tmp_path, SLEEPS), tmp_path / "out"
    command = ["sweep", "01", "seed=0:3", "--jobs", "2", "--output", str(output)]
    first = output / "settings" / "seed=0" / "notebooks" / "01_square.json"
    interrupt(command, tmp_path, marker, first.exists)
    assert not list(output.glob("settings/*/notebooks/.*"))
    written = first.stat().st_mtime_ns

    source = tmp_path / "01_square.py"
    before = runner.read(source).digest
    assert json.loads(first.read_text("utf-8"))["source"] == before
    assert main(["sweep", "01", "seed=0", "--output", str(output)], tmp_path) == 0
    assert "1 of them done before" in capsys.readouterr().out
    assert first.stat().st_mtime_ns == written
