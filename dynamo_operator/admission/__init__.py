"""Defaulting and validation of our kinds: pure functions that webhooks and controllers call."""
