"""Statements of our own, beyond what the five papers print, and their routes."""
