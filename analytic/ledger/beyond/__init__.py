"""Statements of our own, beyond what the five papers print, and their routes."""

from analytic.ledger.beyond import algebra, critical, deep, radial, rough

ROUTES = radial.ROUTES | rough.ROUTES | deep.ROUTES | algebra.ROUTES | critical.ROUTES
