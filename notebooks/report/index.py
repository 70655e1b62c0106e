"""The first page: every executed notebook with its question and verdict, and the ledger's counts."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from html import escape

from analytic.ledger import LEDGERS, Verdict, load
from analytic.ledger.render import count, headline
from notebooks.report import anatomy, gallery, pictures
from notebooks.report.anatomy import Node
from notebooks.report.markdown import phrase
from notebooks.report.page import LEDGER, frame
from notebooks.report.record import Record

PURPOSE = (
    "Is a statement about neural networks true, and what does it look like? "
    "Closed forms are derived, tried against experiments that share none of their code, and shown."
)


def page(executed: Sequence[tuple[Record, Node]]) -> str:
    items = "\n".join(_item(record, notebook) for record, notebook in executed)
    return frame(
        "kernel-geometry",
        f"""<h1>kernel-geometry</h1>
<p>{PURPOSE}</p>
<h2>Notebooks</h2>
<ol class="entries">{items}</ol>
<h2>Ledger</h2>
<p>{escape(headline())} <a href="{LEDGER}">Every statement</a></p>
{_counts()}""",
    )


def _item(record: Record, notebook: Node) -> str:
    title = phrase(anatomy.heading(notebook) or record.notebook)
    lines = [f'<h3><a href="{record.notebook}.html">{title}</a></h3>']
    if question := anatomy.question(notebook):
        lines.append(f"<p>{phrase(question)}</p>")
    if verdict := anatomy.verdict(notebook):
        lines.append(
            f'<p class="verdict"><span class="badge holds">Verdict</span> {escape(verdict)}</p>'
        )
    lines.append(f'<p class="record">{escape(str(record))}</p>')
    return f"<li>{_thumbnail(record, notebook)}<div>{''.join(lines)}</div></li>"


def _thumbnail(record: Record, notebook: Node) -> str:
    if (picture := gallery.first_picture(notebook)) is None:
        return ""
    data = base64.b64encode(gallery.thumbnail(picture)).decode()
    alt = escape(pictures.spell(f"A figure of: {anatomy.heading(notebook) or record.notebook}"))
    image = f'<img alt="{alt}" src="data:image/png;base64,{data}">'
    return f'<a href="{record.notebook}.html">{image}</a>'


def _counts() -> str:
    """Equations by paper and verdict."""
    heads = "".join(f'<th class="number">{v.value}</th>' for v in Verdict)
    rows = []
    for name in LEDGERS:
        paper, tally = load(name), count(name)
        numbers = (*(tally[v] for v in Verdict), tally.total())
        cells = "".join(f'<td class="number">{number}</td>' for number in numbers)
        title = f"{escape(paper.authors)}, <em>{escape(paper.title)}</em>"
        rows.append(f"<tr><td>{title}</td>{cells}</tr>")
    return (
        f'<div class="table"><table><thead><tr><th>paper</th>{heads}<th class="number">all</th></tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )
