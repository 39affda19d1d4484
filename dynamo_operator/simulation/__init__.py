"""Deterministic simulation of whole operators."""
