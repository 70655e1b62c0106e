"""The report: pages that open without a network, formulas in MathML, every ledger entry."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from analytic import InputError
from analytic.ledger import LEDGERS, Verdict, load
from analytic.ledger.render import headline
from notebooks import report
from notebooks.report import anatomy, cells, markdown, mathml
from notebooks.report.page import asset
from notebooks.running import runner

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
def output(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, build = tmp_path_factory.mktemp("sources"), tmp_path_factory.mktemp("build")
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
    assert headline() in text
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


def test_a_report_before_any_run_has_the_ledger(tmp_path: Path) -> None:
    report.write(tmp_path)
    assert "No notebook has been run." in (tmp_path / "report" / "index.html").read_text("utf-8")


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
