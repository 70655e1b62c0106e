"""The index opens as a gallery that nothing must run for, and it is as fresh as notebooks and ledger."""

import base64
import io
import json
import re
import shutil
from pathlib import Path

import pytest
from PIL import Image

from analytic import InputError
from analytic.ledger.render import headline
from notebooks.__main__ import main
from notebooks.report import anatomy, gallery
from notebooks.running import runner
from numeric import path_kernel

INDEX = runner.FOLDER / "00_index.py"


def picture(colour: str, size: tuple[int, int]) -> bytes:
    held = io.BytesIO()
    Image.new("RGB", size, colour).save(held, "png")
    return held.getvalue()


def executed(verdict: str) -> anatomy.Node:
    """A notebook that drew two pictures and passed a verdict."""
    drawn = [base64.b64encode(picture(c, (900, 300))).decode() for c in ("red", "blue")]
    outputs = [{"output_type": "display_data", "data": {"image/png": data}} for data in drawn]
    passed = [{"output_type": "stream", "name": "stdout", "text": verdict}]
    code = {"cell_type": "code", "source": "", "execution_count": 1}
    return {
        "cells": [
            code | {"metadata": {}, "outputs": outputs},
            code | {"metadata": {"tags": ["verdict"]}, "outputs": passed},
        ]
    }


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copy(INDEX, tmp_path)
    (tmp_path / "01_first.py").write_text("# %% [markdown]\n# # Is $a | b$?\n", "utf-8")
    return tmp_path


def test_the_gallery_is_fresh(tmp_path: Path) -> None:
    shutil.copytree(
        runner.FOLDER, tmp_path / "copy", ignore=lambda *_: ["__pycache__", "report", "topics"]
    )
    assert main(["index"], tmp_path / "copy") == 0
    fresh = (tmp_path / "copy" / INDEX.name).read_text("utf-8")
    assert fresh == INDEX.read_text("utf-8"), "run python -m notebooks index"


def test_every_notebook_has_its_picture_question_verdict_and_link() -> None:
    (cell,) = anatomy.tagged(runner.read(INDEX).node, "gallery")
    for path in runner.find(()):
        if path == INDEX:
            continue
        thumbnail = runner.FOLDER / gallery.FOLDER / f"{path.stem}.png"
        assert thumbnail.stat().st_size < 20_000
        (row,) = (line for line in cell.source.splitlines() if f"({path.name})" in line)
        assert f"({gallery.FOLDER}/{thumbnail.name})" in row
        assert anatomy.heading(runner.read(path).node) in row
        assert row.partition("<br>")[2].strip(" |").endswith(".")
    assert headline() in cell.source
    assert "(../LEDGER.md)" in cell.source
    assert "(../build/report/index.html)" in cell.source


def test_documents_quote_the_verdict_of_notebook_12() -> None:
    """Rank correlations with removal, in the order of path kernel, TracIn, influence function, derivative."""
    verdicts = json.loads((runner.FOLDER / "gallery" / "verdicts.json").read_text("utf-8"))
    measured = re.findall(r"0\.\d\d", verdicts["12_accounting_or_counterfactual"])
    usage = (runner.FOLDER.parent / "USAGE.md").read_text("utf-8")
    for document in (usage, path_kernel.__doc__ or ""):
        quoted = document[document.index("Attributions are accounting") :]
        assert re.findall(r"0\.\d\d", quoted)[:4] == measured


def test_pictures_and_verdicts_come_from_what_ran(folder: Path) -> None:
    gallery.collect({"01_first": executed("It is |b| < 2. And\nmore.")}, folder)
    assert main(["index"], folder) == 0
    text = (folder / INDEX.name).read_text("utf-8")
    assert (
        r"# | ![Is a \| b?](gallery/01_first.png) | 01 **[Is $a \| b$?](01_first.py)**"
        r"<br>It is \|b\| &lt; 2. |"
    ) in text
    small = Image.open(folder / "gallery" / "01_first.png")
    assert small.size == (gallery.WIDTH, gallery.HEIGHT)
    assert small.convert("RGB").getpixel((9, 9)) == (255, 0, 0)
    gallery.collect({}, folder)  # what did not run stays
    assert main(["index"], folder) == 0
    assert (folder / INDEX.name).read_text("utf-8") == text


def test_an_index_without_its_cell_and_an_output_of_nothing_are_refused(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["index", "--output", str(tmp_path / "build")], folder) == 2
    assert "holds no executed notebook" in capsys.readouterr().err
    (folder / INDEX.name).write_text("# %%\n1\n", "utf-8")
    with pytest.raises(InputError, match="has no Markdown cell"):
        gallery.write(folder / INDEX.name, {})
