"""What is known of every numbered statement; `analytic.ledger.routes` has the routes, which take time."""

from analytic.ledger.entry import LEDGERS, OWN, PAPERS, Entry, Paper, Verdict, load

__all__ = ["LEDGERS", "OWN", "PAPERS", "Entry", "Paper", "Verdict", "load"]
