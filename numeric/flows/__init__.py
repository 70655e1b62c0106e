"""Flows"""
from numeric.flows.flow import Flow, RankEvent, integrate
__all__ = ["Flow", "RankEvent", "integrate"]
