"""What may go wrong."""


class ClusterError(Exception):
    """A cluster or an image cannot be had; says why and what helps."""
