"""The verdict on every numbered statement of the papers; `analytic.ledger.routes` has the claims."""

from analytic.ledger.entry import LEDGERS, OWN, PAPERS, Entry, Paper, Verdict, load

__all__ = ["LEDGERS", "OWN", "PAPERS", "Entry", "Paper", "Verdict", "load"]
