"""Generates manifests from the code."""
