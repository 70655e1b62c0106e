"""Statements of our own, beyond what the five papers print, and their routes."""

from analytic.ledger.beyond import (
    algebra,
    arcs,
    boosts,
    critical,
    deep,
    radial,
    regimes,
    rough,
    three,
    total,
)

MODULES = (radial, rough, deep, algebra, critical, total, three, arcs, boosts, regimes)
ROUTES = {name: settled for module in MODULES for name, settled in module.ROUTES.items()}
