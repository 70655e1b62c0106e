"""The runner: bad input refused, failures reported, outputs whole or absent."""

import json
import os
import sys
from pathlib import Path

import nbformat
import pytest

import disks
from analytic import InputError
from interrupts import interrupt
from notebooks.__main__ import main
from notebooks.report import anatomy
from notebooks.running import browser, runner

GOOD = """
# %% [markdown]
# # Is two plus two four?
# %% tags=["parameters"]
profile = "quick"
widths, sigma, seed = (1, 2), 0.5, 0
device: str = "cpu"
deep = False
# %%
import os
names = ("KERNEL_GEOMETRY_FRAMES", "OMP_NUM_THREADS", "TQDM_DISABLE")
variables = [os.environ.get(name) for name in names]
print(widths, sigma, seed, *variables, os.getcwd())
# %%
from notebooks.running.numbers import record
record(sum=3, figures=0.0)
# %% tags=["verdict"]
assert 2 + 2 == 4
print("It is four,")
print("and a number is not.")
record(sum=2 + 2, pressure=float("nan"))
"""
FAILS = """
# %% tags=["parameters"]
seed = 0
# %%
x = 1
# %%
assert x == 2, "one is not two"
"""
DIES = """
# %%
before = 1
# %%
import os; os._exit(1)
"""
EXITS = """
# %%
raise SystemExit(0)
# %% tags=["verdict"]
assert False
"""
SLEEPS = """
# %%
import os, pathlib, time
pathlib.Path({marker!r}).write_text(str(os.getpid()))
time.sleep(60)
"""
DRAWS = """
# %% tags=["parameters"]
seed = 0
# %%
from notebooks.panels.style import new_figure, save
save(new_figure(), "01-figure-1")
"""
Ran = tuple[dict[str, runner.Outcome], Path]
GIVEN = {"seed": 3, "widths": (4, 5), "sigma": 2}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("sources")
    sources = {"01_good": GOOD, "02_fails": FAILS, "03_dies": DIES, "04_exits": EXITS}
    for name, source in sources.items():
        (where / f"{name}.py").write_text(source, "utf-8")
    return where


@pytest.fixture(scope="module")
def ran(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    output = tmp_path_factory.mktemp("build")
    (output / "notebooks").mkdir()
    for suffix in runner.SUFFIXES:
        (output / "notebooks" / f"02_fails{suffix}").write_text("stale")
    outcomes = runner.run([], GIVEN, 2, output, folder)
    return {outcome.name: outcome for outcome in outcomes}, output / "notebooks"


def test_a_good_notebook_passes_and_is_recorded(ran: Ran) -> None:
    outcomes, output = ran
    assert outcomes["01_good"].error is None
    record = json.loads((output / "01_good.json").read_text("utf-8"))
    expected = {"profile": "quick", "widths": [4, 5], "sigma": 2, "seed": 3, "device": "cpu"}
    assert record["parameters"] == expected | {"deep": False}
    assert (record["profile"], record["seed"], record["device"]) == ("quick", 3, "cpu")
    assert set(record["commit"]) == {"hash", "dirty"}
    assert record["versions"]["python"] == sys.version.split()[0]
    assert record["started"] <= record["finished"]
    assert record["numbers"] == {"sum": 4, "figures": 0.0, "pressure": "nan"}
    assert record["verdict"] == "It is four, and a number is not."
    assert record["seconds"] == outcomes["01_good"].seconds > 0
    assert not list(output.glob(".*"))
    assert "Is two plus two four?" in (output / "01_good.html").read_text("utf-8")


def test_kernels_get_parameters_environment_and_folder(ran: Ran) -> None:
    notebook = json.loads((ran[1] / "01_good.ipynb").read_text("utf-8"))
    printed = [
        anatomy.text(o["text"])
        for c in notebook["cells"]
        for o in c.get("outputs", ())
        if "text" in o
    ]
    assert printed[0] == f"[4, 5] 2 3 1 1 1 {runner.ROOT}\n"


@pytest.mark.parametrize(
    ("name", "cell", "words"),
    [
        ("02_fails", 'assert x == 2, "one is not two"', "AssertionError: one is not two"),
        ("03_dies", "import os; os._exit(1)", "Kernel died"),
        ("04_exits", "raise SystemExit(0)", "SystemExit: the cells below did not run."),
    ],
)
def test_a_failure_is_told_and_leaves_no_stale_output(
    name: str, cell: str, words: str, ran: Ran
) -> None:
    error = ran[0][name].error or ""
    assert error.startswith(f"    {cell}\n")
    assert words in error
    assert "\x1b" not in error
    assert [path.name for path in ran[1].glob(f"*{name}*")] == [f"{name}.failed.ipynb"]
    assert "stale" not in (ran[1] / f"{name}.failed.ipynb").read_text("utf-8")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run", "01_god"], "'01_god' is no notebook: choose from 01_good"),
        (["run", "0"], "begins several notebooks"),
        (["run", ""], "is no notebook"),
        (["run", "-p", "sede=3"], "No chosen notebook has 'sede': there is seed"),
        (["run", "03", "-p", "seed=3"], "there is no parameter at all"),
        (["run", "02", "-p", "sigma=3"], "No chosen notebook has 'sigma'"),
        (["run", "-p", "seed"], "KEY=VALUE"),
        (["run", "-p", "seed=1", "-p", "seed=2"], "seed was given twice"),
        (["run", "--profile", "fast"], "profile is quick or full, but 'fast' was given"),
        (["run", "-p", "profile=fast"], "profile is quick or full"),
        (["run", "-p", "seed=1.5"], "seed of 01_good must be of type int, like 0, but 1.5"),
        (["run", "-p", "seed=True"], "type int"),
        (["run", "-p", "deep=1"], "type bool"),
        (["run", "-p", "sigma=wide"], "type float"),
        (["run", "-p", "sigma=-1"], "sigma"),
        (["run", "-p", "sigma=inf"], "sigma"),
        (["run", "-p", "widths=3"], "type tuple"),
        (["run", "-p", "device=0"], "type str"),
        (["run", "--jobs", "0"], "at least 1"),
        (["run", "--jobs", "two"], "at least 1"),
        (["lab", "--port", "two"], "at least 1"),
    ],
)
def test_bad_input_is_refused_in_a_sentence(
    arguments: list[str],
    words: str,
    folder: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    where = ["--output", str(tmp_path / "build")] if "run" in arguments else []
    assert main([*arguments, *where], folder) == 2
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1
    assert not (tmp_path / "build").exists()


def test_an_output_that_cannot_be_written_is_refused(
    folder: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "file").touch()
    assert main(["run", "01", "--output", str(tmp_path / "file" / "build")], folder) == 2
    error = capsys.readouterr().err
    assert "cannot be written (Not a directory)" in error
    assert error.count("\n") == 1

    monkeypatch.setattr(Path, "mkdir", disks.read_only)
    assert main(["run", "01", "--output", str(tmp_path / "build")], folder) == 2
    assert "cannot be written (Read-only file system)" in capsys.readouterr().err


def test_places_for_pictures_are_tried_before_anything_starts(
    folder: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(runner.Batch, "attempt", None)
    monkeypatch.setattr(browser, "screenshot", None)
    (tmp_path / "file").touch()
    below, output = str(tmp_path / "file" / "x.png"), str(tmp_path / "build")
    for words, told in {
        ("run", "01", "--figures", below, "--output", output): "give another --figures",
        ("screenshot", "01", below): "cannot be written (File exists): give another FILE",
        ("screenshot", "01", str(tmp_path)): "is a folder: give a FILE in it",
    }.items():
        assert main(words, folder) == 2
        error = capsys.readouterr().err
        assert told in error
        assert error.count("\n") == 1
    assert not (tmp_path / "build").exists()


def test_a_picture_of_a_panel_needs_a_browser(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(browser, "chromium", lambda: None)
    assert main(["screenshot", "06", str(tmp_path / "panel.png")]) == 2
    assert "no Chromium here" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_disk_that_fills_during_a_run_is_told(
    folder: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(runner, "standalone", disks.full)
    assert main(["run", "01", "--output", str(tmp_path)], folder) == 2
    assert "cannot be written (No space left on device)" in capsys.readouterr().err
    assert not list((tmp_path / "notebooks").iterdir())


def test_a_failure_ends_with_status_one_and_no_report(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "02_fails.py", "--report", "--output", str(tmp_path)], folder) == 1
    streams = capsys.readouterr()
    assert streams.out == "1 of 1 failed: 02_fails\n"
    assert "FAILED 02_fails" in streams.err
    assert "AssertionError: one is not two" in streams.err
    assert not (tmp_path / "report").exists()


def test_list_shows_names_headings_and_parameters(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["list"], folder) == 0
    shown = capsys.readouterr().out
    assert "01_good: Is two plus two four?\n" in shown
    assert "    widths = (1, 2)\n" in shown


def test_a_run_with_other_parameters_leaves_the_figures_of_the_repository_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Figures go into the output of the run, or where one asks."""
    (tmp_path / "01_draws.py").write_text(DRAWS, "utf-8")
    tracked = runner.ROOT / "figures"
    before = {path: path.stat().st_mtime_ns for path in tracked.iterdir()}
    monkeypatch.chdir(tmp_path)
    for where in ([], ["--figures", "pictures"]):
        assert main(["run", "-p", "seed=3", "--output", "build", *where], tmp_path) == 0
    assert (tmp_path / "build" / "figures" / "01-figure-1.png").exists()
    assert (tmp_path / "pictures" / "01-figure-1.png").exists()
    assert {path: path.stat().st_mtime_ns for path in tracked.iterdir()} == before


def test_a_folder_without_notebooks_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no notebook"):
        runner.run([], {}, 1, tmp_path / "build", tmp_path)


def test_a_default_that_is_computed_takes_any_value() -> None:
    cell = {
        "metadata": {"tags": ["parameters"]},
        "source": "import os\nn = os.cpu_count()\na = b = 1",
    }
    parameters = anatomy.parameters({"cells": [cell]})
    assert {name: str(value) for name, value in parameters.items()} == {
        "n": "os.cpu_count()", "a": "1", "b": "1",
    }  # fmt: skip
    assert anatomy.fits(parameters["n"], "anything")


@pytest.mark.parametrize("last", [0, 1, 2])
def test_a_record_is_the_last_to_come_into_place(
    last: int, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that ends after any of its files leaves no record that speaks of files that are not there."""
    moved: list[str] = []
    replace = os.replace

    def interrupted(source: Path, target: Path) -> None:
        if len(moved) == last:
            raise KeyboardInterrupt
        moved.append(Path(target).suffix)
        replace(source, target)

    def executed(_: object, source: runner.Source, __: object, partial: Path) -> None:
        nbformat.write(source.node, partial)

    monkeypatch.setattr(runner.Batch, "_execute", executed)
    monkeypatch.setattr(runner, "standalone", lambda *_: "a page")
    monkeypatch.setattr(runner.os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        runner.run(["01"], {}, 1, tmp_path, folder)
    left = {path.suffix for path in (tmp_path / "notebooks").iterdir()}
    assert left == set(moved)
    assert len(left) == last
    assert ".json" not in left


def test_an_interrupt_stops_kernels_and_leaves_no_output(tmp_path: Path) -> None:
    marker = tmp_path / "pid"
    for name in ("01_sleeps", "02_sleeps"):
        (tmp_path / f"{name}.py").write_text(SLEEPS.format(marker=str(marker)), "utf-8")
    interrupt(["run", "--output", str(tmp_path / "build")], tmp_path, marker)
    assert {path.name for path in (tmp_path / "build" / "notebooks").iterdir()} <= {
        "01_sleeps.failed.ipynb"
    }
