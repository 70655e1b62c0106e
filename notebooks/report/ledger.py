"""The ledger as one table that a reader can filter, each row with a permanent anchor."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from analytic.ledger import LEDGERS, Entry, Verdict, load
from analytic.ledger.render import headline
from analytic.ledger.routes import all_routes
from notebooks.report import mathml
from notebooks.report.page import asset, frame


def page() -> str:
    rows = "\n".join(_row(name, entry) for name in LEDGERS for entry in load(name).entries)
    return frame(
        "Ledger",
        f"""<h1>Ledger</h1>
<p>{escape(headline())}</p>
<form class="filter" hidden>
<input type="search" name="text" placeholder="id, section, LaTeX, route or note" aria-label="text">
{_select("paper", LEDGERS)}
{_select("verdict", [v.value for v in Verdict])}
<output></output>
</form>
<table class="ledger">
<thead><tr><th>entry</th><th>statement</th><th>routes and note</th></tr></thead>
<tbody>
{rows}
</tbody>
</table>
<script>
{asset("ledger.js")}</script>""",
    )


def _select(name: str, options: list[str] | tuple[str, ...]) -> str:
    choices = "".join(f"<option>{escape(option)}</option>" for option in options)
    every = f'<option value="">every {name}</option>'
    return f'<select name="{name}" aria-label="{name}">{every}{choices}</select>'


def _row(paper: str, entry: Entry) -> str:
    name, verdict = escape(entry.id), entry.verdict.value
    statement = mathml.display(entry.printed)
    if entry.corrected:
        statement += f"<p>corrected</p>{mathml.display(entry.corrected)}"
    data = f'data-paper="{paper}" data-verdict="{verdict}" data-equations="{len(entry.equations)}"'
    return (
        f'<tr id="{name}" {data}><td><a href="#{name}">{name}</a><br>section {escape(entry.section)}'
        f'<br><span class="badge {verdict}">{verdict}</span></td><td>{statement}</td>'
        f"<td>{''.join(f'<p>{escape(text)}</p>' for text in _findings(entry))}</td></tr>"
    )


def _findings(entry: Entry) -> Iterator[str]:
    """Routes, what they showed, and what could not be read."""
    if settled := all_routes().get(entry.id):
        yield from (f"{claim}, {claim.digits} digits" for claim in settled.claims)
    if entry.note:
        yield entry.note
    if entry.damaged:
        yield f"Text at hand: {entry.damaged}"
