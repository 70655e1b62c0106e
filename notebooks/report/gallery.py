"""The gallery in the index: a picture, question and verdict of each notebook, as text of its own."""

from __future__ import annotations

import base64
import io
import json
import re
from html import escape
from pathlib import Path

import numpy as np
from PIL import Image

from analytic import InputError
from analytic.ledger import LEDGERS, Verdict, load
from analytic.ledger.render import count, headline
from notebooks.report import anatomy, pictures
from notebooks.report.anatomy import Node

FOLDER = "gallery"  # beside the notebooks: a picture of each, and what it last concluded
WIDTH, HEIGHT, COLOURS = 260, 180, 48  # of a thumbnail, which then has less than 20 kB
LONGEST = 1.5  # times its frame: a picture that is wider shows its first plots only
BAR = r"\|"  # within a cell of a table, which a bare one would end
_CELL = re.compile(r'(?<=^# %% \[markdown\] tags=\["gallery"\]\n).*?(?=\n\n# %%)', re.M | re.S)


def collect(executed: dict[str, Node], folder: Path) -> None:
    """Thumbnails and verdicts of executed notebooks, by name, into folder/gallery."""
    target = folder / FOLDER
    target.mkdir(exist_ok=True)
    verdicts = _verdicts(folder)
    for name, notebook in executed.items():
        if verdict := anatomy.verdict(notebook):
            verdicts[name] = _first_sentence(verdict)
        if picture := first_picture(notebook):
            (target / f"{name}.png").write_bytes(thumbnail(picture))
    text = json.dumps(dict(sorted(verdicts.items())), indent=2, ensure_ascii=False)
    (target / "verdicts.json").write_text(f"{text}\n", "utf-8")


def write(index: Path, notebooks: dict[str, Node]) -> None:
    """The cell tagged gallery of an index, from the sources of notebooks beside it."""
    source = index.read_text("utf-8")
    if not _CELL.search(source):
        raise InputError(
            f'{index} has no Markdown cell with tags=["gallery"] to write to: add one.'
        )
    lines = render(notebooks, index.parent).splitlines()
    cell = "\n".join(f"# {line}".rstrip() for line in lines)
    fresh = _CELL.sub(lambda _: cell, source)
    if fresh != source:
        index.write_text(fresh, "utf-8")


def render(notebooks: dict[str, Node], folder: Path) -> str:
    """Markdown: notebooks with their pictures, then the ledger's counts."""
    verdicts = _verdicts(folder)
    rows = [_row(name, notebook, verdicts, folder) for name, notebook in notebooks.items()]
    papers = [_paper(name) for name in LEDGERS]
    return "\n".join(
        [
            "## Notebooks",
            "",
            "| | question and verdict |",
            "|---|---|",
            *rows,
            "",
            "Verdicts are those of the last `make figures`. `make run` runs every notebook and writes",
            "[a report](../build/report/index.html) that opens without a kernel.",
            "",
            "## Ledger",
            "",
            f"{headline()} Each with its routes: [LEDGER.md](../LEDGER.md).",
            "",
            "| paper | definitions | hold | false as printed | restored | open | all |",
            "|---|---:|---:|---:|---:|---:|---:|",
            *papers,
        ]
    )


def _row(name: str, notebook: Node, verdicts: dict[str, str], folder: Path) -> str:
    question, picture = anatomy.heading(notebook) or name, f"{FOLDER}/{name}.png"
    shown = f"![{pictures.spell(question)}]({picture})" if (folder / picture).exists() else ""
    verdict = f"<br>{_literally(verdicts[name])}" if name in verdicts else ""
    cells = (shown, f"{name[:2]} **[{question}]({name}.py)**{verdict}")
    return f"| {' | '.join(cell.replace('|', BAR) for cell in cells)} |"


def _paper(name: str) -> str:
    paper, tally = load(name), count(name)
    numbers = " | ".join(str(tally[verdict]) for verdict in Verdict)
    return f"| {paper.authors}, *{paper.title}* | {numbers} | {tally.total()} |"


def _literally(text: str) -> str:
    """Text in which Markdown finds no slanted words and no formulas."""
    return re.sub(r"([*_$])", r"\\\1", escape(text, quote=False))


def _verdicts(folder: Path) -> dict[str, str]:
    path = folder / FOLDER / "verdicts.json"
    return json.loads(path.read_text("utf-8")) if path.exists() else {}


def _first_sentence(verdict: str) -> str:
    return re.split(r"(?<=[.?!])\s+(?=[A-Z])", verdict)[0]


def first_picture(notebook: Node) -> bytes | None:
    outputs = (output for cell in notebook["cells"] for output in cell.get("outputs", ()))
    pngs = (output.get("data", {}).get("image/png") for output in outputs)
    data = next(filter(None, pngs), None)
    return base64.b64decode(anatomy.text(data)) if data else None


def thumbnail(png: bytes) -> bytes:
    """A picture in a small frame: all of it, or where it is long its first plots, none cut through."""
    picture = Image.open(io.BytesIO(png)).convert("RGB")
    high = picture.height
    first = picture.crop((0, 0, _until_a_gap(picture, high * WIDTH / HEIGHT), high))
    first.thumbnail((WIDTH, HEIGHT), Image.Resampling.LANCZOS)
    frame = Image.new("RGB", (WIDTH, HEIGHT), picture.getpixel((0, 0)))
    frame.paste(first, ((WIDTH - first.width) // 2, (HEIGHT - first.height) // 2))
    held = io.BytesIO()
    few = frame.quantize(COLOURS, dither=Image.Dither.NONE)
    few.save(held, "png", optimize=True)
    return held.getvalue()


def _until_a_gap(picture: Image.Image, width: float) -> int:
    """Where to cut a picture much wider than a frame: at the last blank column that leaves it small."""
    pixels = np.asarray(picture)
    blank = (pixels == pixels[0, 0]).all(axis=(0, 2))
    gaps = np.flatnonzero(blank & (np.arange(len(blank)) > width / 2))
    near = gaps[gaps <= LONGEST * width]
    return picture.width if picture.width <= LONGEST * width or not near.size else int(near[-1])
