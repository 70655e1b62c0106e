# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Neural networks, kernels and Riemannian geometry
#
# Which statements of five papers about wide, finite and trained networks are true, and what do they look like?
# Every notebook here asks one question, states a claim, gathers evidence, passes a verdict that can fail, and leaves
# you sliders to play with. New here? Start with [01](01_nngp_geometry.py), then read its verdict in the
# [ledger](../LEDGER.md).

# %% tags=["parameters"]
profile = "quick"

# %%
from IPython.display import Markdown

from analytic import catalogue
from analytic.ledger import LEDGERS, Verdict, load
from analytic.ledger.render import count, headline
from notebooks.report import anatomy
from notebooks.running import runner

# %% [markdown]
# ## Notebooks

# %%
sources = [runner.read(path) for path in runner.find(()) if not path.stem.startswith("00")]
rows = [f"| [{s.name}]({s.name}.py) | {anatomy.heading(s.node)} |" for s in sources]
Markdown("\n".join(["| notebook | question |", "|---|---|", *rows]))

# %% [markdown]
# ## Ledger

# %%
rows = [
    f"| {name} | {load(name).authors} | {count(name).total() - count(name)[Verdict.OPEN]} | {count(name).total()} |"
    for name in LEDGERS
]
Markdown(
    "\n".join(
        [headline(), "", "| paper | authors | settled | statements |", "|---|---|---:|---:|", *rows]
    )
)

# %% [markdown]
# ## Closed forms
#
# Each is one object: it prints itself, evaluates to any precision, and compiles to numpy and torch. `list(catalogue)`
# names them all; `python -m analytic show NAME` tells where one comes from.

# %%
formula = catalogue["nngp.gaussian.ricci"]
formula

# %%
print(formula.evaluate(40, d=3, sigma=1, zeta="0.1", r=2))

# %% [markdown]
# ## Verdict

# %% tags=["verdict"]
assert all(anatomy.heading(s.node).endswith("?") for s in sources), "a notebook asks no question"
assert all(anatomy.tagged(s.node, "verdict") for s in sources), "a notebook passes no verdict"
print(
    f"{len(sources)} notebooks, each with a question and a verdict; {len(catalogue)} closed forms."
)
