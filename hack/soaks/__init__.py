"""Long searches for bugs, on virtual time: see hack/soak."""
