"""Defaulting and validation of our kinds."""
