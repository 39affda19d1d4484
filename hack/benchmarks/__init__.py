"""What speed and memory are measured by; see hack/bench."""
