"""The ledger: complete, settled by routes that can fail, and printed as it stands."""

from importlib import import_module
from itertools import chain
from pathlib import Path

import pytest

from analytic import catalogue
from analytic.claims import Claim, survivors
from analytic.ledger import PAPERS, ROUTES, Entry, Verdict, load
from analytic.ledger.render import headline, markdown

ENTRIES = tuple(chain.from_iterable(load(name).entries for name in PAPERS))
SETTLED = {id(claim): (entry, claim) for entry, s in ROUTES.items() for claim in s.claims}
LETTERED = {"A": 19, "B": 70, "C": 51, "D": 20, "E": 41, "F": 21, "G": 3}  # curvature's appendices
NUMBERED = {
    "curvature": {str(k) for k in range(1, 8)}
    | {f"{letter}.{k}" for letter, last in LETTERED.items() for k in range(1, last + 1)},
    "univariate-relu": {str(k) for k in range(1, 48)}
    | {f"lemma-{k}" for k in (2, 3, 7)}
    | {f"proposition-{k}" for k in (1, 4, 8)}
    | {"theorem-5", "corollary-6"},
    "exact-path-kernel": {str(k) for k in range(1, 95)}
    | {f"definition-3.{k}" for k in (1, 2, 3, 4)}
    | {"lemma-3.5", "theorem-3.6", "theorem-3.7", "algorithm-1"},
    "output-space-flow": {f"2.{k}" for k in range(1, 65)}
    | {f"3.{k}" for k in range(1, 18)}
    | {"4.1"}
    | {f"A.{k}" for k in range(1, 17)}
    | {"lemma-2.2", "theorem-2.3", "proposition-2.4", "proposition-2.5", "corollary-3.2"}
    | {"definition-A.1", "lemma-A.2"},
    "equivariant-ntk": {str(k) for k in range(1, 16)},
}


@pytest.mark.parametrize(("entry", "claim"), SETTLED.values(), ids=lambda value: str(value))
def test_route_holds_and_refuses_mutants(entry: str, claim: Claim) -> None:
    assert claim.holds(), f"{entry}: off by {claim.worst_error()}"
    assert survivors(claim, most=10) == [], entry


@pytest.mark.parametrize("entry", [e.id for e in ENTRIES if e.verdict is Verdict.ERRATUM])
def test_erratum_fails_as_printed(entry: str) -> None:
    refuted = ROUTES[entry].refuted
    assert refuted
    assert not any(claim.holds() for claim in refuted)


@pytest.mark.parametrize("name", PAPERS)
def test_every_number_has_one_entry(name: str) -> None:
    numbers = [number for entry in load(name).entries for number in entry.equations]
    assert len(numbers) == len(set(numbers))
    assert set(numbers) == NUMBERED[name]


def test_claiming_verdicts_have_routes_and_no_others_do() -> None:
    assert set(ROUTES) == {entry.id for entry in ENTRIES if entry.verdict.claims}


def test_sections_ii_to_iv_and_appendix_c_are_settled() -> None:
    scope = [e for e in load("curvature").entries if e.number[0] in "1234567C"]
    assert len(scope) == 7 + 43
    assert not [e.id for e in scope if e.verdict is Verdict.OPEN]


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.id)
def test_entry_is_well_formed(entry: Entry) -> None:
    assert entry.id.partition("/")[0] in PAPERS
    assert (entry.verdict is Verdict.ERRATUM) == bool(entry.corrected)
    assert entry.verdict is not Verdict.HOLDS or not entry.damaged
    assert entry.verdict is not Verdict.RESTORED or entry.damaged
    for text in (entry.printed, entry.corrected):
        assert text.count("{") == text.count("}")
        assert text.count(r"\begin") == text.count(r"\end")


@pytest.mark.parametrize("place", sorted({place for e in ENTRIES for place in e.code}))
def test_code_is_where_the_ledger_says(place: str) -> None:
    if place in catalogue:
        return
    module, found = place, None
    while found is None:
        module, _, _ = module.rpartition(".")
        assert module, f"{place} is neither in the catalogue nor a module"
        try:
            found = import_module(module)
        except ModuleNotFoundError:
            continue
    for part in place[len(module) + 1 :].split("."):
        found = getattr(found, part)


def test_ledger_file_is_fresh() -> None:
    written = (Path(__file__).parents[1] / "LEDGER.md").read_text("utf-8")
    assert written == markdown(), "run `make ledger`"


def test_readme_quotes_the_headline() -> None:
    readme = (Path(__file__).parents[1] / "README.md").read_text("utf-8")
    assert headline() in " ".join(readme.split())


def test_readme_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    readme = (Path(__file__).parents[1] / "README.md").read_text("utf-8")
    example = readme.partition("```python\n")[2].partition("```")[0]
    exec(compile(example, "README.md", "exec"), {})
    assert "-13.5902299967813237200502203381" in capsys.readouterr().out


def test_headline_counts_equations_not_rows() -> None:
    total = sum(len(numbers) for numbers in NUMBERED.values())
    assert f"of {total} numbered statements" in headline()
    assert total > len(ENTRIES)
