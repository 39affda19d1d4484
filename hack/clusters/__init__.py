"""A real cluster of one node on this machine, and images for it: see hack/cluster, hack/image."""
