"""Our kinds as pydantic models, and the contracts that several parts share.

Pure: no I/O, nothing of the controllers. Kinds are imported from their version's package.
"""
