"""On a real cluster of one node, which `hack/cluster test` starts."""
