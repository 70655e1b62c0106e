"""Pages of the report in a real browser as wide as a telephone: nothing overflows, the font loads."""

import base64
import io
from pathlib import Path

import pytest
from PIL import Image

from notebooks import panels
from notebooks.report import ledger, markdown
from notebooks.report.page import frame
from notebooks.running.browser import LabPage
from notebooks.topics import nngp, nngp_figures

WIDE = r"""# What is $\sqrt{2}$?

$$a = \frac{1}{2}\left(1 + \sqrt{2} + \frac{1}{\sqrt{3 + \cos x}}\right)^{2} + b + c + d + e + f + g + h$$

| a long heading | another long heading | a third long heading | a fourth | a fifth |
|---|---|---|---|---|
| incomprehensibilities | incomprehensibilities | incomprehensibilities | 1 | 2 |
"""
FONT = "document.fonts.ready.then(() => [...document.fonts][0].status)"


def pages() -> dict[str, str]:
    held = io.BytesIO()
    Image.new("RGB", (1200, 300), "red").save(held, "png")
    image = f"data:image/png;base64,{base64.b64encode(held.getvalue()).decode()}"
    output = f'<div class="output"><img alt="a red picture" src="{image}"></div>'
    printed = f'<pre class="output">{"7" * 300}</pre>'
    return {
        "notebook": frame(
            "wide", f'<div class="prose">{markdown.render(WIDE)}</div>{output}{printed}'
        ),
        "ledger": ledger.page(),
        "frames": frame("frames", panels.Panel(nngp.ray, nngp_figures.PANEL).frames(1000)),
    }


def test_a_telephone_shows_every_page_without_overflow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jupyter: LabPage
) -> None:
    monkeypatch.setattr(ledger, "all_routes", dict)  # seconds to import, for a few more words
    page = jupyter.page.context.browser.new_page(viewport={"width": 390, "height": 844})
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: errors.append(message.text))
    for name, text in pages().items():
        (tmp_path / f"{name}.html").write_text(text, "utf-8")
        page.goto((tmp_path / f"{name}.html").as_uri())
        assert page.evaluate(FONT) == "loaded", name  # before any width is that of its letters
        assert page.evaluate("document.documentElement.scrollWidth") == 390, name
    hint = page.locator(".panel-hint")  # of the frames, whose second axes are out of sight
    hint.wait_for(state="visible")
    page.set_viewport_size({"width": 1280, "height": 844})
    hint.wait_for(state="hidden")
    page.close()
    assert errors == []
