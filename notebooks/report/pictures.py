"""Pictures as pages carry them: in fewer bytes, and with words for those who cannot see them."""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from PIL import Image

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_PNG = re.compile(r"iVBORw0KGgo[A-Za-z0-9+/]+=*")  # in base64: every PNG opens so
_COLOURS = 256
_LONGEST = 6  # plots that are named one by one


def compress(page: str) -> str:
    """Every PNG within a page in 256 colours, where that is smaller: a quarter of the bytes."""
    return _PNG.sub(lambda match: _in_few_colours(match[0]), page)


def _in_few_colours(encoded: str) -> str:
    try:
        picture = Image.open(io.BytesIO(base64.b64decode(encoded)))
    except (OSError, ValueError):  # text of an author that opens like a picture
        return encoded
    if picture.mode == "RGBA" and picture.getextrema()[3] == (255, 255):
        picture = picture.convert("RGB")
    if picture.mode != "RGB":  # it has a palette or transparent parts
        return encoded
    few = picture.quantize(_COLOURS, method=Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
    palette, background = few.getpalette() or [], 3 * few.getpixel((0, 0))
    palette[background : background + 3] = picture.getpixel((0, 0))  # or white turns to light grey
    few.putpalette(palette)
    held = io.BytesIO()
    few.save(held, "png")
    return min(encoded, base64.b64encode(held.getvalue()).decode(), key=len)


def describe(figure: Figure) -> str:
    """What a figure shows, from the titles, labels and legends of its plots.

    >>> from matplotlib.figure import Figure
    >>> figure = Figure()
    >>> axes = figure.subplots()
    >>> lines = axes.plot([0, 1], [0, 1], label="exact")
    >>> _ = axes.set(title=r"erf: $\\sqrt{\\det g}$", xlabel=r"$\\|x\\|$"), axes.legend()
    >>> describe(figure)
    'Plot of erf: sqrt(det g) over |x|, showing exact.'
    """
    plots = list(dict.fromkeys(filter(None, map(_describe_axes, figure.axes))))
    whole = f"{spell(figure.get_suptitle())}, " if figure.get_suptitle() else ""
    if not plots:
        return whole.removesuffix(", ")
    if len(plots) == 1:
        return f"Plot of {whole}{plots[0]}."
    more = f"; and {len(plots) - _LONGEST} more" if len(plots) > _LONGEST else ""
    return f"{whole}{len(plots)} plots: {'; '.join(plots[:_LONGEST])}{more}."


def _describe_axes(axes: Axes) -> str:
    title = axes.get_title() or axes.get_ylabel()
    if not title:  # a colour bar, or a row under another that says what both are
        return ""
    over = f" over {axes.get_xlabel()}" if axes.get_xlabel() else ""
    legend = axes.get_legend()
    labels = _listed(text.get_text() for text in legend.get_texts()) if legend else ""
    return spell(f"{title}{over}{f', showing {labels}' if labels else ''}")


def _listed(names: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(filter(None, names)))


_SPELLINGS = (
    (r"\$|\\displaystyle|\\left|\\right|\\[,;:! ]|\\rm\b", ""),
    (r"\\[dt]?frac\{([^{}]*)\}\{([^{}]*)\}", r"\1/\2"),
    (r"\\log_\{?10\}?", "log10 "),
    (r"\\det\s*", "det "),
    (r"\\langle", "<"),
    (r"\\rangle", ">"),
    (r"\\sqrt\{([^{}]*)\}", r"sqrt(\1)"),
    (r"\\(?:math|text|operatorname)\w*\{([^{}]*)\}", r"\1"),
    (r"\\(?:hat|bar|tilde|dot)\b\s*\{?(\w)\}?", r"\1"),
    (r"\\\|", "|"),
    (r"\\([a-zA-Z]+)", r"\1"),
    (r"[{}]", ""),
    (r"\s+", " "),
)


def spell(latex: str) -> str:
    r"""A line of text with formulas as one would write them on a keyboard.

    >>> spell(r"volume $\sqrt{\det g}$ at $\|x\| = \frac{1}{2}$, $\sigma^{2}$")
    'volume sqrt(det g) at |x| = 1/2, sigma^2'
    >>> spell(r"$\log_{10}\langle\sqrt{\det g}\rangle$, $\det\bar g$")
    'log10 <sqrt(det g)>, det g'
    """
    for pattern, spelling in _SPELLINGS:
        latex = re.sub(pattern, spelling, latex)
    return latex.strip()
