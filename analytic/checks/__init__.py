"""Checks of the closed forms: claims, oracles that share no code with the formulas, and mutants."""
