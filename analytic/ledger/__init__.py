"""Every numbered statement of the five papers and our own, what was found, and by which routes."""

from analytic.ledger.entry import LEDGERS, OWN, PAPERS, Entry, Paper, Verdict, load
from analytic.ledger.settled import ROUTES, Settled

__all__ = ["LEDGERS", "OWN", "PAPERS", "ROUTES", "Entry", "Paper", "Settled", "Verdict", "load"]
