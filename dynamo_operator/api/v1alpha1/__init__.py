"""The v1alpha1 kinds."""
