"""What a network does between pairs of images, as tables, figures and one page of HTML."""

from __future__ import annotations

import csv
import html
import math
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from torch import Tensor

from numeric.experiments.images.network_fields import EstimatedFields, Fields
from numeric.inputs import InputError

__all__ = ["Segment", "require_figures", "write"]

SHOWN = 5  # images above a curve
SPECTRA = """, singular values at both ends and in the middle in
<a href="spectrum.csv">spectrum.csv</a>"""
PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>{title}</title>
<style>
body {{ font: 16px/1.5 sans-serif; max-width: 60em; margin: 2em auto; padding: 0 1em; }}
table {{ border-collapse: collapse; }} td, th {{ padding: .2em .8em; text-align: right; }}
img {{ max-width: 100%; }}
</style>
<h1>{title}</h1>
<ul>{settings}</ul>
<p>Along each segment the log volume (natural logarithm), its rank, and the entropy of the prediction in units
of log {classes}. Where the rank varies, volumes have more or fewer factors and do not compare. Numbers are in
<a href="geometry.csv">geometry.csv</a>{spectra}.</p>
<table><tr><th>pair</th><th>images</th><th>classes</th><th>predicted</th><th>log volume at the ends</th>
<th>largest</th><th>at t</th><th>rank</th><th>class changes at t</th></tr>{rows}</table>
{figures}
</html>
"""


@dataclass(frozen=True, eq=False)
class Segment:
    """The images between two, as one looks at them, and the fields there."""

    rows: tuple[int, int]  # of the test images
    labels: tuple[str, str]
    t: Tensor  # (n,)
    shown: Tensor  # (n, c, h, w), in [0, 1]
    fields: Fields | EstimatedFields

    @property
    def columns(self) -> dict[str, Tensor]:
        """Of the geometry, (n,) each."""
        one = self.fields
        if isinstance(one, Fields):
            return {"log_volume": one.log_volume, "rank": one.rank, "condition": one.condition}
        estimate = one.estimate
        return {
            "log_volume": estimate.value,
            "standard_error": estimate.stderr,
            "bias": estimate.bias,
            "rank": estimate.rank,
        }

    def volume(self, place: int) -> str:
        """The log volume there, with its standard error if it has one."""
        value = f"{self.fields.log_volume[place]:.2f}"
        if isinstance(self.fields, Fields):
            return value
        return f"{value} ± {self.fields.estimate.stderr[place]:.2f}"

    @property
    def changes(self) -> list[float]:
        """Where the predicted class changes: halfway between two positions."""
        same = self.fields.prediction[1:] == self.fields.prediction[:-1]
        middle = (self.t[1:] + self.t[:-1]) / 2
        return middle[~same].tolist()

    @property
    def ranks(self) -> str:
        """That of all points, or the least and the largest."""
        least, most = int(self.fields.rank.min()), int(self.fields.rank.max())
        return str(least) if least == most else f"{least} to {most}"


def require_figures() -> Any:
    """Matplotlib's Figure, or a refusal that says what to install."""
    try:
        return import_module("matplotlib.figure").Figure
    except ImportError:
        raise InputError(
            "Figures need matplotlib, which is not installed: install kernel-geometry[notebooks]."
        ) from None


def write(
    folder: Path, segments: Sequence[Segment], classes: Sequence[str], settings: Sequence[str]
) -> Path:
    """Write geometry.csv, a figure for each pair, and index.html, whose path is returned.

    Where volumes are exact, spectrum.csv too.
    """
    figure = require_figures()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _write_tables(folder, segments, classes)
        for k, segment in enumerate(segments):
            _draw(figure(figsize=(8, 7), layout="constrained"), segment, classes).savefig(
                folder / _name(k), dpi=110
            )
        page = folder / "index.html"
        page.write_text(_page(segments, classes, settings), "utf-8")
    except OSError as error:
        raise InputError(
            f"{folder} cannot be written ({error.strerror}): choose another --out."
        ) from None
    return page


def _name(pair: int) -> str:
    return f"pair-{pair:03d}.png"


def _write_tables(folder: Path, segments: Sequence[Segment], classes: Sequence[str]) -> None:
    with (folder / "geometry.csv").open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(
            ["pair", "first", "second", "t", *segments[0].columns, "prediction", "entropy"]
        )
        for k, segment in enumerate(segments):
            predictions = [classes[one] for one in segment.fields.prediction.tolist()]
            numbers = (column.tolist() for column in segment.columns.values())
            for t, *values in zip(
                segment.t.tolist(),
                *numbers,
                predictions,
                segment.fields.entropy.tolist(),
                strict=True,
            ):
                table.writerow([k, *segment.rows, f"{t:.6g}", *values])
    spectra = [
        (k, segment, segment.fields.log_singular)
        for k, segment in enumerate(segments)
        if isinstance(segment.fields, Fields)
    ]
    if not spectra:
        return
    with (folder / "spectrum.csv").open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["pair", "t", "index", "log_singular_value"])
        for k, segment, log_singular in spectra:
            for place in _places(segment):
                logs = log_singular[place]
                for index, value in enumerate(logs[logs > -math.inf].tolist()):
                    table.writerow([k, f"{segment.t[place].item():.6g}", index, value])


def _places(segment: Segment) -> tuple[int, int, int]:
    return 0, len(segment.t) // 2, len(segment.t) - 1


def _draw(figure: Any, segment: Segment, classes: Sequence[str]) -> Any:
    fields, t = segment.fields, segment.t.tolist()
    count = min(SHOWN, len(t))
    heights = (1.2, 2, 1.2, 2) if isinstance(fields, Fields) else (1.2, 2, 1.2)
    grid = figure.add_gridspec(len(heights), count, height_ratios=heights)
    for k in range(count):
        place = round(k * (len(t) - 1) / (count - 1))
        axes = figure.add_subplot(grid[0, k])
        image = segment.shown[place].movedim(0, -1).clamp(0, 1).cpu().numpy()
        axes.imshow(image if image.shape[-1] == 3 else image[..., 0], cmap="gray", vmin=0, vmax=1)
        axes.set_title(f"t = {t[place]:.2f}", fontsize=9)
        axes.set_axis_off()
    volume = figure.add_subplot(grid[1, :])
    deviation = None if isinstance(fields, Fields) else fields.estimate.stderr
    volume.errorbar(t, fields.log_volume, deviation, color="0.7", zorder=1)
    for label in fields.prediction.unique().tolist():
        there = (fields.prediction == label).tolist()
        chosen = [k for k, inside in enumerate(there) if inside]
        volume.scatter(
            [t[k] for k in chosen], fields.log_volume[chosen], s=14, color=f"C{label % 10}",
            label=classes[label], zorder=2,
        )  # fmt: skip
    volume.set_ylabel("log volume")
    volume.legend(title="prediction", fontsize=8)
    entropy = figure.add_subplot(grid[2, :], sharex=volume)
    entropy.plot(t, fields.entropy, color="0.2")
    entropy.set(ylabel="entropy", xlabel=f"t, from {segment.labels[0]} to {segment.labels[1]}")
    for axes in (volume, entropy):
        for change in segment.changes:
            axes.axvline(change, color="0.8", linewidth=1, zorder=0)
    if not isinstance(fields, Fields):
        return figure
    values = figure.add_subplot(grid[3, :])
    for place in _places(segment):
        values.plot(range(1, 1 + fields.log_singular.shape[1]), fields.log_singular[place],
                    label=f"t = {t[place]:.2f}")  # fmt: skip
    values.set(xlabel="index", ylabel="log singular value")
    values.legend(fontsize=8)
    return figure


def _page(segments: Sequence[Segment], classes: Sequence[str], settings: Sequence[str]) -> str:
    rows, figures = [], []
    for k, segment in enumerate(segments):
        fields = segment.fields
        top = int(fields.log_volume.nan_to_num(nan=-math.inf).argmax())
        ends = [classes[int(fields.prediction[place])] for place in (0, -1)]
        cells = (
            k, f"{segment.rows[0]}, {segment.rows[1]}", ", ".join(segment.labels), ", ".join(ends),
            f"{segment.volume(0)}, {segment.volume(-1)}", segment.volume(top), f"{segment.t[top]:.3f}",
            segment.ranks, ", ".join(f"{change:.3f}" for change in segment.changes) or "nowhere",
        )  # fmt: skip
        rows.append("<tr>" + "".join(f"<td>{html.escape(str(c))}</td>" for c in cells) + "</tr>")
        title = html.escape(f"Pair {k}: {segment.labels[0]} to {segment.labels[1]}")
        notes = "" if isinstance(fields, Fields) else " ".join(fields.estimate.notes)
        told = f"<p>{html.escape(notes)}</p>" if notes else ""
        figures.append(f'<h2>{title}</h2>{told}<img src="{_name(k)}" alt="{title}">')
    return PAGE.format(
        title="Geometry between images",
        settings="".join(f"<li>{html.escape(line)}</li>" for line in settings),
        classes=segments[0].fields.logits.shape[1],
        spectra=SPECTRA if isinstance(segments[0].fields, Fields) else "",
        rows="".join(rows),
        figures="\n".join(figures),
    )
