"""The v1beta2 kinds."""
