"""The kinds of nvidia.com as models."""
