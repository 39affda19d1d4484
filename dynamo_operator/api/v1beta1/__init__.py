"""The v1beta1 kinds."""
