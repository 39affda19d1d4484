"""Which GPUs a cluster has: product names, node labels, DCGM exporters, and what they add up to.

Everything but `discovery` is pure.
"""
