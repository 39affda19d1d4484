"""The composition root: the only list of what the operator runs."""
