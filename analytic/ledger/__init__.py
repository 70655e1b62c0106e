"""Every numbered statement of the five papers, what was found of it, and by which routes."""

from analytic.ledger.entry import PAPERS, Entry, Paper, Verdict, load
from analytic.ledger.settled import ROUTES, Settled

__all__ = ["PAPERS", "ROUTES", "Entry", "Paper", "Settled", "Verdict", "load"]
