"""The controllers and the node agent that make an API server a cluster."""
