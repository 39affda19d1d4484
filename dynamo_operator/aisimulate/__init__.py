"""AISimulate's side of a search: its input, and what comes back."""
