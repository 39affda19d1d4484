"""A real cluster of one node on this machine: see hack/cluster."""
