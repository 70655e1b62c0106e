"""Does the command line answer with exact digits, and refuse in one sentence?"""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import sympy as sp
from mpmath import mp, mpf

from analytic import catalogue
from analytic.__main__ import main
from analytic.expressions.symbols import MEANING
from analytic.ledger import render

ERF = "eval nngp.erf.ricci d=3 sigma=1 zeta=0.5 r=2"
VALUE = "-13.5902299967813237200502203381\n"


def erf_ricci(d, sigma, zeta, r) -> mpf:
    """-pi (d-1)(d+2) sigma^2 r^2 / (2 (1 + 2 zeta^2) sqrt(1 + 2V)), typed anew."""
    total = 1 + 2 * (sigma**2 * r**2 + zeta**2)
    return -mp.pi * (d - 1) * (d + 2) * sigma**2 * r**2 / (2 * (1 + 2 * zeta**2) * mp.sqrt(total))


@pytest.fixture
def run(capsys) -> Callable[[str], tuple[int, str, str]]:
    """A command line to (exit code, stdout, stderr)."""

    def call(line: str) -> tuple[int, str, str]:
        try:
            code = main(line.split())
        except SystemExit as stop:  # argparse
            code = stop.code
        return code, *capsys.readouterr()

    return call


def test_list_names_everything(run) -> None:
    assert run("list") == (0, "\n".join(catalogue) + "\n", "")


@pytest.mark.parametrize(
    ("pattern", "keep"),
    [
        ("gelu", lambda name: "gelu" in name),
        ("nngp.*.ricci", lambda name: name.startswith("nngp.") and name.endswith(".ricci")),
        (
            "nngp.erf.?????",
            lambda name: name in ("nngp.erf.omega", "nngp.erf.ricci", "nngp.erf.slope"),
        ),
    ],
)
def test_list_keeps_what_matches(run, pattern, keep) -> None:
    code, out, err = run(f"list {pattern}")
    assert (code, err) == (0, "")
    assert out.split() == [name for name in catalogue if keep(name)] != []


@pytest.mark.parametrize("name", ["nngp.erf.ricci", "nngp.monomial.kernel", "nngp.elu.slope"])
def test_show_gives_latex_arguments_and_source(run, name) -> None:
    code, out, err = run(f"show {name}")
    formula = catalogue[name]
    assert (code, err) == (0, "")
    assert out.startswith(f"{name}\n=\n{sp.latex(formula.expr)}\n")
    for symbol in formula.args:
        assert MEANING[symbol.name] in out
    assert formula.citation in out
    assert "Formula(" not in out


def test_show_names_the_condition_and_the_ledger(run) -> None:
    assert "kxy" in run("show nngp.erf.kernel")[1].split("where")[1]
    assert "curvature/C.28 (erratum)" in run("show nngp.erf.ricci")[1]


@pytest.mark.parametrize("digits", [1, 5, 30, 80])
def test_eval_prints_the_digits_that_were_asked_for(run, digits) -> None:
    with mp.workdps(digits + 10):
        expected = mp.nstr(erf_ricci(3, 1, mpf("0.5"), 2), digits)
    assert run(f"{ERF} --digits {digits}") == (0, f"{expected}\n", "")


def test_eval_has_thirty_digits_and_reads_numbers_exactly(run) -> None:
    with mp.workdps(40):
        exact = erf_ricci(4, mpf(1) / 3, mpf("0.1"), mpf("1e-8"))
        expected = mp.nstr(exact, 30)
    assert run("eval nngp.erf.ricci d=4 sigma=1/3 zeta=0.1 r=1e-8")[1] == f"{expected}\n"
    assert run(ERF) == (0, VALUE, "")


@pytest.mark.parametrize(
    "line",
    [
        "eval nngp.erf.ricci r=2 zeta=1/2 sigma=1.0 d=3",
        "eval --digits 30 nngp.erf.ricci r=2 zeta=1/2 sigma=1.0 d=3",
        "eval nngp.erf.ricci --digits 30 r=2 zeta=1/2 sigma=1.0 d=3",
        "eval nngp.erf.ricci r=2 zeta=1/2 --digits=30 sigma=1.0 d=3",
    ],
)
def test_the_order_of_arguments_does_not_matter(run, line) -> None:
    assert run(line) == (0, VALUE, "")


def test_eval_takes_the_parameters_of_an_activation(run) -> None:
    value = mpf(run("eval nngp.sine.omega sigma=2 zeta=0 r=1 w=1/4 --digits 15")[1])
    assert mp.almosteq(value, mp.log(4 * (1 + mp.exp(-0.5)) / 32), 1e-13)


def test_ledger_is_written_where_one_asks(run, tmp_path, monkeypatch) -> None:
    """What stands in it is held by test_ledger.py: to derive every route again takes ten seconds."""
    monkeypatch.setattr(render, "markdown", lambda: "# Ledger\n")
    path = tmp_path / "ledger.md"
    code, out, err = run(f"ledger --output {path}")
    assert (code, err) == (0, "")
    assert out.splitlines() == [render.headline(), f"written to {path}"]
    assert path.read_text("utf-8") == "# Ledger\n"


BAD = {
    "no such form": "show nngp.erf.rich",
    "no match": "list zzz",
    "unknown name": "eval nngp.erf d=3",
    "no equals sign": f"{ERF} d",
    "nothing but a name": "eval nngp.erf.ricci",
    "a missing argument": "eval nngp.erf.ricci d=3 sigma=1 zeta=0.5",
    "a surplus argument": f"{ERF} x=3",
    "an argument without a name": f"{ERF} =3",
    "an argument twice": f"{ERF} r=3",
    "no number": ERF.replace("r=2", "r=two"),
    "nan": ERF.replace("r=2", "r=nan"),
    "infinity": ERF.replace("r=2", "r=inf"),
    "nothing": ERF.replace("r=2", "r="),
    "a division by zero": ERF.replace("r=2", "r=1/0"),
    "a negative norm": ERF.replace("r=2", "r=-2"),
    "no weights": ERF.replace("sigma=1", "sigma=0"),
    "a broken dimension": ERF.replace("d=3", "d=3.5"),
    "no dimension": ERF.replace("d=3", "d=0"),
    "a broken degree": "eval nngp.monomial.omega q=1.5 sigma=1 zeta=1 r=1",
    "a degree too low": "eval nngp.relu_power.ricci q=1/2 d=3 sigma=1 zeta=1 r=1",
    "a degree far too low": "eval nngp.relu_power.ricci q=1/4 d=3 sigma=1 zeta=1 r=1",
    "no covariance": "eval nngp.erf.kernel kxx=1 kxy=2 kyy=1",
    "a singular metric": "eval nngp.monomial.ricci q=2 d=3 sigma=1 zeta=0 r=0",
    "no digits": f"{ERF} --digits 0",
    "negative digits": f"{ERF} --digits=-3",
    "broken digits": f"{ERF} --digits 1.5",
    "no such folder": "ledger --output /nonexistent/ledger.md",
    "a folder": "ledger --output /",
}


@pytest.mark.parametrize("line", BAD.values(), ids=BAD)
def test_bad_input_is_refused_in_one_sentence(run, line) -> None:
    code, out, err = run(line)
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert err.endswith((".\n", "?\n"))


@pytest.mark.parametrize(
    "line", ["", "frobnicate", "eval", "list a b", f"{ERF} --digits", "list --x"]
)
def test_bad_usage_is_refused_with_the_usage(run, line) -> None:
    code, out, err = run(line)
    assert (code, out) == (2, "")
    assert err.startswith("usage: python -m analytic")
    assert "error: " in err.splitlines()[-1]


def command(line: str) -> subprocess.CompletedProcess:
    program = f"{sys.executable} -m analytic {line}"
    root = Path(__file__).parents[1]
    return subprocess.run(program, shell=True, capture_output=True, text=True, cwd=root)


def test_it_runs_as_a_program() -> None:
    good, bad = command(ERF), command("show nothing")
    assert (good.returncode, good.stdout, good.stderr) == (0, VALUE, "")
    assert (bad.returncode, bad.stdout) == (2, "")
    assert "Traceback" not in bad.stderr


def test_a_reader_may_leave_early() -> None:
    assert command("list | true").stderr == ""
