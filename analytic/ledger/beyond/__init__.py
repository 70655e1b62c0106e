"""Statements of our own, beyond what the five papers print, and their routes."""

from analytic.ledger.beyond import algebra, critical, deep, radial, rough, three, total

MODULES = (radial, rough, deep, algebra, critical, total, three)
ROUTES = {name: settled for module in MODULES for name, settled in module.ROUTES.items()}
