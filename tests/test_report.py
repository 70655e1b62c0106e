"""The report: pages that open without a network, formulas in MathML, every ledger entry."""

import base64
import io
import json
import re
import shutil
import unicodedata
from collections.abc import Iterator
from html import escape
from html.parser import HTMLParser
from pathlib import Path

import pytest
from PIL import Image

from analytic import InputError, catalogue
from analytic.ledger import LEDGERS, Verdict, load
from analytic.ledger.render import headline
from notebooks import report
from notebooks.__main__ import main
from notebooks.report import anatomy, cells, markdown, mathml, pictures
from notebooks.report.page import asset
from notebooks.running import runner
from report_pages import alternatives, check_page, font, missing_glyphs

FIRST = r"""
# %% [markdown]
# # How large is $\sqrt{2}$?
#
# A square with unit sides has a diagonal. Is it longer than $1.4$? See [the second](02_second.py), the
# [ledger](../LEDGER.md), [a paper](https://example.org/paper.pdf) and [nothing](missing.md).
#
# $$\sqrt2 = 1 + \cfrac{1}{2 + \cdots},\qquad
# a < b.$$
# %% tags=["parameters"]
profile = "quick"
# %%
import sympy
sympy.sqrt(sympy.Symbol("x")) / 2
# %%
from IPython.display import HTML, SVG, Markdown, display
display(SVG('<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><g id="a"/></svg>'))
display(Markdown("| a | $b$ |\n|---|---|\n| 1 | 2 |"))
HTML('<div class="frames"><script>(() => { const x = "<b>" && 1; })();</script></div>')
# %% [markdown]
# ## A curve of $\sigma^2$
# %%
from matplotlib.figure import (
    Figure,
)
from notebooks.panels.style import new_figure, save
figure = new_figure()
axes = figure.subplots()
axes.plot([0, 1], [0, 1], label="exact")
axes.set(title=r"$\sqrt{\det g}$", xlabel=r"$\|x\|$")
axes.legend()
save(figure, "curve")
# %% [markdown]
# ## Play
# Click on it.
# %%
import ipywidgets
ipywidgets.IntSlider()
# %%
print("\x1b[31m1 < 2 & 3\x1b[0m")
# %% tags=["verdict"]
assert 2**0.5 > 1.4
print("It is longer,")
print("by 0.0142.")
"""
SECOND = """
# %% [markdown]
# # Second
# %%
# isort: split
# a remark
1 + 1
"""
FAR = re.compile(
    r"""(?:src|href|action|data)\s*=\s*["']?\s*(?:[a-z]+:)?//|url\(\s*["']?\s*(?:[a-z]+:)?//|@import""",
    re.IGNORECASE,
)
VOID = {"meta", "link", "br", "img", "input", "hr"}


class _Outline(HTMLParser):
    """Tags that close in order, and the attributes of every element."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def find(self, wanted: str) -> list[dict[str, str | None]]:
        return [attributes for tag, attributes in self.elements if tag == wanted]


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder, build = tmp_path_factory.mktemp("sources"), tmp_path_factory.mktemp("build")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KERNEL_GEOMETRY_FIGURES", str(folder / "figures"))
        yield _reported(folder, build)


def _reported(folder: Path, build: Path) -> Path:
    (folder / "01_first.py").write_text(FIRST, "utf-8")
    (folder / "02_second.py").write_text(SECOND, "utf-8")
    assert [outcome.error for outcome in runner.run([], {}, 2, build, folder)] == [None, None]
    (build / "report").mkdir()
    (build / "report" / "09_gone.html").write_text("stale")
    assert report.write(build) == build / "report" / "index.html"
    return build


@pytest.fixture(scope="module")
def pages(output: Path) -> dict[str, str]:
    return {path.name: path.read_text("utf-8") for path in (output / "report").iterdir()}


def test_pages_are_those_of_what_ran(pages: dict[str, str]) -> None:
    assert set(pages) == {"index.html", "ledger.html", "01_first.html", "02_second.html"}


def test_no_page_asks_for_anything_far(output: Path, pages: dict[str, str]) -> None:
    alone = {p.name: p.read_text("utf-8") for p in (output / "notebooks").glob("*.html")}
    for name, text in [*pages.items(), *alone.items()]:
        assert not FAR.search(text), name
    assert FAR.search('<script src="https://cdn.example/x.js">')
    assert FAR.search("<link href=//fonts.example/a.css>")


def test_pages_are_well_formed_and_link_to_each_other(pages: dict[str, str]) -> None:
    for name, text in pages.items():
        outline = _Outline(text)
        assert not outline.open, name
        for attributes in outline.find("a"):
            page, _, anchor = (attributes["href"] or "").partition("#")
            assert not page or page in pages, (name, page)
            assert not anchor or f'id="{anchor}"' in text, (name, anchor)
        assert {"index.html", "ledger.html"} <= {a["href"] for a in outline.find("a")}


def test_a_notebook_page_shows_each_output_once_in_its_richest_form(pages: dict[str, str]) -> None:
    text = pages["01_first.html"]
    assert '<div class="frames"><script>(() => { const x = "<b>" && 1; })();</script></div>' in text
    assert "data:image/svg+xml;base64," in text
    assert "<svg" not in text
    assert "<th><math" in text
    assert "1 &lt; 2 &amp; 3\n</pre>" in text
    assert "\x1b" not in text
    assert "IntSlider" not in re.sub(r"<details.*?</details>", "", text, flags=re.DOTALL)
    assert "sqrt(x)/2" not in text
    assert r"\frac{\sqrt{x}}{2}</annotation>" in text
    assert "$" not in re.sub(r"<(details|script).*?</\1>", "", text, flags=re.DOTALL)
    assert 'class="latex"' not in text


def test_pages_have_glyphs_and_words_for_what_they_show(pages: dict[str, str]) -> None:
    for page in pages.values():
        check_page(page)
    assert alternatives(pages["01_first.html"]) == [
        "How large is sqrt(2)?",
        "A curve of sigma^2. Plot of sqrt(det g) over |x|, showing exact.",
    ]
    assert 'font-family: "STIX Two Math"; src: url(data:' in pages["01_first.html"]
    assert "data:font" not in pages["02_second.html"]  # it has no formula
    assert missing_glyphs("<math><mi>Ж</mi><msqrt></msqrt></math>") == {"Ж"}


def test_tall_roots_are_as_wide_as_short_ones() -> None:
    """Chromium leaves room for the widest behind each root."""
    cmap, variants = font().getBestCmap(), font()["MATH"].table.MathVariants
    signs = variants.VertGlyphConstruction[variants.VertGlyphCoverage.glyphs.index(cmap[0x221A])]
    names = [record.VariantGlyph for record in signs.MathGlyphVariantRecord]
    names += [part.glyph for part in signs.GlyphAssembly.PartRecords]
    assert len({font()["hmtx"][name][0] for name in names}) == 1


def test_formulas_of_the_texts_have_glyphs() -> None:
    texts = [
        anatomy.text(cell["source"])
        for path in runner.find(())
        for cell in runner.read(path).node["cells"]
        if cell["cell_type"] == "markdown"
    ]
    assert not missing_glyphs("".join(map(markdown.render, texts)))


@pytest.mark.sweep
def test_formulas_of_the_catalogue_have_glyphs() -> None:
    printed = [mathml.bare(formula._repr_latex_()) for formula in catalogue.values()]
    assert not missing_glyphs("".join(map(mathml.display, printed)))


def test_colours_are_told_apart_in_light_and_dark() -> None:
    schemes = re.findall(r":root \{(.*?)\}", asset("page.css"), re.DOTALL)
    assert len(schemes) == 2
    for scheme in schemes:
        colours = dict(re.findall(r"--(\w+): (#[0-9a-f]{6});", scheme))
        grounds = {colours.pop("paper"), colours.pop("shade")}
        del colours["line"]  # a rule between rows, which says nothing
        assert len(colours) == 12
        for name, colour in colours.items():
            assert all(_contrast(colour, ground) >= 4.5 for ground in grounds), name


def _contrast(one: str, other: str) -> float:
    """The ratio of WCAG 2.1."""
    dark, light = sorted((_luminance(one), _luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def _luminance(colour: str) -> float:
    parts = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return sum(w * c for w, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def test_a_section_to_play_with_says_that_the_page_computes_nothing(pages: dict[str, str]) -> None:
    assert pages["01_first.html"].count('<p class="live">') == 1
    assert 'Click on it.</p>\n</div>\n<p class="live">' in pages["01_first.html"]
    assert 'class="live"' not in pages["02_second.html"]


def test_pictures_shrink_and_keep_their_background() -> None:
    noise = Image.effect_noise((200, 200), 90)
    picture = Image.merge("RGB", (noise, noise.rotate(90), noise.rotate(180)))
    picture.paste((255, 255, 255), (0, 0, 200, 20))
    held = io.BytesIO()
    picture.save(held, "png")
    encoded = base64.b64encode(held.getvalue()).decode()
    page = pictures.compress(f'<img src="data:image/png;base64,{encoded}">iVBORw0KGgoNoPicture')
    assert page.endswith('">iVBORw0KGgoNoPicture')
    assert len(page) < len(encoded) / 2
    small = base64.b64decode(page.partition("base64,")[2].partition('"')[0])
    assert Image.open(io.BytesIO(small)).convert("RGB").getpixel((5, 5)) == (255, 255, 255)


def test_code_is_folded_under_a_short_summary(pages: dict[str, str]) -> None:
    summaries = re.findall(
        r'<details class="code"><summary>(.*?)</summary>', pages["01_first.html"]
    )
    assert summaries[:2] == ["parameters", "sympy.sqrt(sympy.Symbol(&quot;x&quot;)) / 2"]
    assert "<summary>a remark</summary>" in pages["02_second.html"]


def test_links_reach_pages_that_exist_and_others_are_text(pages: dict[str, str]) -> None:
    text = pages["01_first.html"]
    assert '<a href="02_second.html">the second</a>' in text
    assert '<a href="ledger.html">ledger</a>' in text
    assert "a paper (https://example.org/paper.pdf)" in text
    assert "and nothing." in text


def test_index_tells_questions_verdicts_records_and_counts(pages: dict[str, str]) -> None:
    text = pages["index.html"]
    assert re.search(r'<a href="01_first.html">How large is <math.*?</math>\?</a>', text)
    assert "<p>Is it longer than <math" in text
    assert "It is longer, by 0.0142." in text
    assert "profile quick" in text
    assert escape(headline()) in text
    for name in LEDGERS:
        assert load(name).title in text
    assert "None" not in text


def test_ledger_has_every_entry_and_its_filter(pages: dict[str, str]) -> None:
    text, outline = pages["ledger.html"], _Outline(pages["ledger.html"])
    entries = [entry for name in LEDGERS for entry in load(name).entries]
    rows = [row for row in outline.find("tr") if "id" in row]
    assert [row["id"] for row in rows] == [entry.id for entry in entries]
    for row, entry in zip(rows, entries, strict=True):
        assert row["data-verdict"] == entry.verdict.value
        assert row["data-paper"] == entry.id.partition("/")[0]
        assert row["data-equations"] == str(len(entry.equations))
    assert len(outline.find("math")) == sum(1 + bool(entry.corrected) for entry in entries)
    assert "<code" not in text
    assert {field.get("name") for field in outline.find("select")} == {"paper", "verdict"}
    assert [field["name"] for field in outline.find("input")] == ["text"]
    assert len(outline.find("output")) == 1
    assert len(outline.find("option")) == 2 + len(LEDGERS) + len(Verdict)
    assert asset("ledger.js") in text
    assert not re.search(r"<m[inot]+[^>]*>(?:\\|&amp;<)", text), (
        "a command or & is left in a formula"
    )


def test_a_report_of_nothing_is_refused_and_leaves_no_trace(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", "--output", str(tmp_path)]) == 2
    assert capsys.readouterr().err == (
        f"error: {tmp_path}/notebooks holds no executed notebook: run some first, as in "
        f"python -m notebooks run 01 --output {tmp_path}.\n"
    )
    assert not list(tmp_path.iterdir())


def test_a_report_that_cannot_be_written_is_refused(output: Path, tmp_path: Path) -> None:
    shutil.copytree(output / "notebooks", tmp_path / "notebooks")
    (tmp_path / "report").touch()
    with pytest.raises(InputError, match=r"report cannot be written \(File exists\)"):
        report.write(tmp_path)


def test_a_damaged_record_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "notebooks" / "01_first.json").write_text("{}")
    with pytest.raises(InputError, match=r"01_first in .* is damaged: run it again"):
        report.write(tmp_path)


@pytest.mark.parametrize(
    ("source", "latex"),
    [
        ("a $x_1$ b", ["x_1"]),
        ("$a$ and $b$", ["a", "b"]),
        ("broken $a\n+ b$ over lines", ["a + b"]),
        ("$$\na\n- b\n$$", ["a - b"]),
        ("so\n$$a_1 < b\n- c.$$\nholds", ["a_1 &lt; b - c."]),
        ("| a |\n|---|\n| $\\phi$ |", [r"\phi"]),
        ("it costs $5 or $6", []),
        ("`$x$` is code", []),
        ("    $x$ is code", []),
        ("```\n$x\n- y$\n```", []),
        (r"\$x\$ is escaped", []),
    ],
)
def test_formulas_in_markdown(source: str, latex: list[str]) -> None:
    annotations = re.findall(
        r"<annotation[^>]*>(.*?)</annotation>", markdown.render(source), re.DOTALL
    )
    assert annotations == latex


def test_a_formula_on_its_own_is_in_no_paragraph() -> None:
    assert "<p" not in markdown.render("$$\na\n- b\n$$")
    assert markdown.render("so\n$$a$$\nholds").count("<p>") == 2


def test_formulas_align_escape_and_survive_the_unknown() -> None:
    aligned = mathml.display(r"\begin{aligned} a &= b \\ &= c \end{aligned}")
    assert aligned.count("<mtr>") == 2
    assert "a&lt;b" in mathml.inline(r"\text{a<b}").partition("<annotation")[0]
    assert "<mo>&lt;</mo>" in mathml.inline("a < b")
    assert "⟨" in mathml.inline(r"\Big\langle x \Big\rangle")
    assert mathml.inline(r"\frac") == r'<code class="latex">\frac</code>'
    assert '<mo stretchy="false">\u223c</mo>' in mathml.inline(r"z \sim N")
    styled = r"\boldsymbol\delta, \mathbf 1, \mathbb 1, \mathbf{x}"
    names = ("ITALIC SMALL DELTA", "DIGIT ONE", "SMALL X")
    bold = {unicodedata.lookup(f"MATHEMATICAL BOLD {name}") for name in names}
    assert {*bold, "\U0001d7d9"} <= set(mathml.inline(styled))
    assert mathml.bare(r"$\displaystyle x$") == "x"


def test_printed_text_is_as_it_last_stood() -> None:
    assert cells.plain("\x1b[1;31mred\x1b[0m\r\n10%\r100%\ndone") == "red\n100%\ndone"


def test_a_verdict_that_did_not_run_is_none() -> None:
    cell = {"cell_type": "code", "metadata": {"tags": ["verdict"]}, "source": "", "outputs": []}
    assert anatomy.verdict({"cells": [cell | {"execution_count": None}]}) is None
    assert anatomy.verdict({"cells": [cell | {"execution_count": 1}]}) == "Every assertion holds."


def test_records_survive_their_file(output: Path) -> None:
    path = output / "notebooks" / "01_first.json"
    record = report.Record.read(path)
    record.write(path.with_suffix(".copy"))
    assert json.loads(path.read_text()) == json.loads(path.with_suffix(".copy").read_text())
