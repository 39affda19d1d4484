"""The Common Expression Language as Kubernetes has it: parsed, checked, costed and evaluated."""
