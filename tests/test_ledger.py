"""The ledger: complete, settled by routes that can fail, and printed as it stands."""

import re
from collections.abc import Iterator
from dataclasses import fields
from importlib import import_module
from itertools import chain
from pathlib import Path

import pytest
import sympy as sp

from analytic import catalogue
from analytic.activations import monomial
from analytic.checks.claims import Claim, survivors
from analytic.expressions.symbols import V, s
from analytic.geometry import ntk
from analytic.geometry.kernel_jet import Dual, KernelJet, LayerMoments
from analytic.ledger import LEDGERS, OWN, PAPERS, Entry, Verdict, load
from analytic.ledger.beyond import algebra
from analytic.ledger.figures import Outcome, count_figures, figures
from analytic.ledger.render import headline, markdown
from analytic.ledger.routes import MODULES, all_routes, routes_of

ENTRIES = tuple(chain.from_iterable(load(name).entries for name in LEDGERS))
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


def claims_of(module: str) -> Iterator[tuple[str, Claim]]:
    """Each claim once, with the first entry that it settles."""
    seen: set[int] = set()
    for entry, settled in routes_of(module).items():
        for claim in settled.claims:
            if id(claim) not in seen:
                seen.add(id(claim))
                yield entry, claim


@pytest.mark.parametrize("module", MODULES)
def test_routes_hold_refuse_mutants_and_what_is_printed_fails(module: str) -> None:
    for entry, claim in claims_of(module):
        some = claim.at_first(1)
        assert some.holds(), f"{entry}, {some}: off by {some.worst_error()}"
        assert survivors(claim, most=2) == [], f"{entry}, {claim}"
    for entry, settled in routes_of(module).items():
        if settled.printed:
            assert settled.printed_claims, entry
            assert not any(claim.holds() for claim in settled.printed_claims), entry


@pytest.mark.sweep
@pytest.mark.parametrize("module", MODULES)
def test_routes_hold_everywhere_and_refuse_more_mutants(module: str) -> None:
    for entry, claim in claims_of(module):
        assert claim.holds(), f"{entry}, {claim}: off by {claim.worst_error()}"
        assert survivors(claim, most=10) == [], f"{entry}, {claim}"


@pytest.mark.parametrize("name", PAPERS)
def test_every_number_has_one_entry(name: str) -> None:
    numbers = [number for entry in load(name).entries for number in entry.equations]
    assert len(numbers) == len(set(numbers))
    assert set(numbers) == NUMBERED[name]


def test_our_own_statements_have_names_and_hold() -> None:
    own = load(OWN).entries
    names = [entry.number for entry in own]
    assert len(set(names)) == len(names) >= 10
    assert not any(character.isdecimal() for name in names for character in name)
    assert {entry.verdict for entry in own} == {Verdict.HOLDS}
    assert all(entry.code for entry in own)


def test_all_of_curvature_but_its_experiments_is_settled() -> None:
    scope = [e for e in load("curvature").entries if e.number[0] in "1234567ABCDEF"]
    counts = [sum(len(e.equations) for e in scope if e.number[0] == letter) for letter in "ABCDEF"]
    assert counts == [19, 70, 51, 20, 41, 21]
    assert not [e.id for e in scope if e.verdict is Verdict.OPEN]


@pytest.mark.parametrize("name", [name for name in PAPERS if name != "curvature"])
def test_paper_is_settled(name: str) -> None:
    assert not [e.id for e in load(name).entries if e.verdict is Verdict.OPEN]


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.id)
def test_entry_is_well_formed(entry: Entry) -> None:
    assert entry.id.partition("/")[0] in LEDGERS
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
    module, target = place, None
    while target is None:
        module, _, _ = module.rpartition(".")
        assert module, f"{place} is neither in the catalogue nor a module"
        try:
            target = import_module(module)
        except ModuleNotFoundError:
            continue
    for part in place[len(module) + 1 :].split("."):
        target = getattr(target, part)


def test_claiming_entries_have_routes_errata_their_printed_form_and_the_file_is_fresh() -> None:
    """One test, since all routes take seconds to import, and each worker of a run would import them."""
    assert set(all_routes()) == {entry.id for entry in ENTRIES if entry.verdict.claims}
    errata = {e.id for e in ENTRIES if e.verdict is Verdict.ERRATUM}
    assert errata <= {entry for entry, settled in all_routes().items() if settled.printed}
    written = (Path(__file__).parents[1] / "LEDGER.md").read_text("utf-8")
    assert written == markdown(), "run `make ledger`"


def test_figures_are_entries_and_stand_where_they_say() -> None:
    """Each figure once, none left out, and each that was made again under a heading of its notebook."""
    numbers = [(figure.paper, number) for figure in figures() for number in figure.numbers]
    assert len(set(numbers)) == len(numbers) == count_figures().total()
    last = {"curvature/G.": 34, "curvature/": 6, "univariate-relu/": 9, "exact-path-kernel/": 8}
    expected = {f"{name}{k}" for name, count in last.items() for k in range(1, count + 1)}
    expected |= {"curvature/B.1", "curvature/C.1", "curvature/E.1"}
    expected |= {f"equivariant-ntk/{data}" for data in ("histology", "QM9", "MNIST")}
    # A paper without figures is said to be one: output-space-flow speaks of none.
    assert {one.partition("/")[0] for one in expected} == set(PAPERS) - {"output-space-flow"}
    assert {"/".join(one) for one in numbers} == expected
    folder = Path(__file__).parents[1] / "notebooks"
    for figure in figures():
        assert (
            bool(figure.notebook)
            == bool(figure.section)
            == (figure.outcome is not Outcome.NOT_TRIED)
        )
        assert figure.note or figure.outcome is Outcome.REPRODUCED, figure.id
        if figure.notebook:
            text = (folder / f"{figure.notebook}.py").read_text("utf-8")
            assert f"\n# ## {figure.section}\n" in text, figure.id


def test_readme_quotes_the_headline() -> None:
    readme = (Path(__file__).parents[1] / "README.md").read_text("utf-8")
    assert headline() in " ".join(readme.split())


def test_examples_of_readme_and_usage_run(capsys: pytest.CaptureFixture[str]) -> None:
    """Those of USAGE go on from the README's, as a reader does."""
    pages = [
        (Path(__file__).parents[1] / name).read_text("utf-8") for name in ("README.md", "USAGE.md")
    ]
    blocks = [re.findall(r"```python\n(.*?)```", page, re.DOTALL) for page in pages]
    assert min(map(len, blocks)) >= 1
    example = "\n".join(block for page in blocks for block in page)
    exec(compile(example, "README.md and USAGE.md", "exec"), {})
    quoted = re.findall(r"^print\(.*# ([-\d.]+)", example, re.MULTILINE)
    assert len(quoted) == 3
    assert capsys.readouterr().out.split() == quoted


def test_headline_counts_equations_not_rows_and_ours_apart() -> None:
    total = sum(len(numbers) for numbers in NUMBERED.values())
    rows = {name: len(load(name).entries) for name in LEDGERS}
    assert f"of {total} numbered statements" in headline()
    assert f"The suite adds {rows.pop(OWN)} statements of its own, which hold." in headline()
    assert total > sum(rows.values())


def test_quadratic_tangent_curvature_is_identical_to_the_derived_one() -> None:
    stated = routes_of("beyond.radial")["beyond/ntk-quadratic"].claims[0].statement.expr
    assert sp.factor(stated - ntk.ricci(monomial(2)).expr) == 0


def _theta(f: sp.Expr) -> sp.Expr:
    return s * sp.diff(f, s)


def _jet(T: sp.Expr, a: sp.Expr, b: sp.Expr) -> KernelJet:
    """By the definitions in the docstring of `analytic.geometry.kernel_jet`."""
    alpha, gamma, share = _theta(a) / a, s * algebra.defect(T, a, b) / (2 * a), sp.diff(T, s) / a
    duals = {"t": _theta(T) / T, "alpha": alpha, "gamma": gamma, "beta": alpha - gamma}
    duals |= {"pi": 1 - share, "one_minus_pi": share}
    return KernelJet(
        T=T,
        A=s * a,
        excess=algebra.gap(T, a, b) / a,
        **{name: Dual(f, _theta(f)) for name, f in duals.items()},
    )


def _parts(jet: KernelJet) -> Iterator[sp.Expr]:
    for field in fields(jet):
        part = getattr(jet, field.name)
        yield from (part.value, part.rate) if isinstance(part, Dual) else (part,)


def _same(one: KernelJet, two: KernelJet) -> bool:
    return all(sp.cancel(sp.together(p - q)) == 0 for p, q in zip(_parts(one), _parts(two)))


def _generic(index: int) -> tuple[sp.Expr, ...]:
    return tuple(sp.Function(f"{name}{index}")(s) for name in ("T", "a", "b"))


def test_kernel_algebra_is_an_identity_in_generic_functions() -> None:
    """T, a and b of a sum and of a product follow from the definition of a metric alone."""
    one, two = (T1, a1, b1), (T2, a2, b2) = _generic(1), _generic(2)
    summed = (T1 + T2, a1 + a2, b1 + b2)
    cross = 2 * sp.diff(T1, s) * sp.diff(T2, s)
    product = (T1 * T2, T1 * a2 + T2 * a1, T1 * b2 + T2 * b1 + cross)
    for total, law, jet in (
        (summed, algebra.of_sum(one, two), _jet(*one) + _jet(*two)),
        (product, algebra.of_product(one, two), _jet(*one) * _jet(*two)),
    ):
        assert sp.simplify(algebra.defect(*total) - law[0]) == 0
        assert sp.simplify(algebra.gap(*total) - law[1]) == 0
        assert _same(_jet(*total), jet)


def test_a_layer_is_an_identity_in_generic_moments() -> None:
    """f and g are F and G along the curve V = T(s), so that d/dV is d/ds over T'."""
    T, a, b = one = _generic(1)
    f, g = sp.Function("f")(s), sp.Function("g")(s)

    def by_V(e: sp.Expr) -> sp.Expr:
        return sp.diff(e, s) / sp.diff(T, s)

    eps_F, eps_G, ratio = T * by_V(f) / f, T * by_V(g) / g, by_V(f) / g
    rate_eps_F, rate_eps_G, rate_ratio = (T * by_V(e) for e in (eps_F, eps_G, ratio))
    layer = LayerMoments(
        F=f, eps_F=eps_F, rate_eps_F=rate_eps_F, G=g, eps_G=eps_G, rate_eps_G=rate_eps_G,
        one_plus_2_eps_G=1 + 2 * eps_G, ratio=ratio, rate_ratio=rate_ratio,
    )  # fmt: skip
    after = (f, g * a, g * b + 2 * by_V(g) * sp.diff(T, s) ** 2)
    assert _same(_jet(*after), _jet(*one).through(layer))


def test_the_laws_of_a_layer_are_identities_in_generic_moments() -> None:
    T, a, b = one = _generic(1)
    f, g = sp.Function("f"), sp.Function("g")
    slope = sp.diff(g(V), V).subs(V, T)
    after = (f(T), g(T) * a, g(T) * b + 2 * slope * sp.diff(T, s) ** 2)
    defect, gap = algebra.of_layer(one, f(V), g(V))
    assert sp.simplify(algebra.defect(*after) - defect) == 0
    assert sp.simplify(algebra.gap(*after) - gap) == 0
