"""The built-in kinds: schemas, defaults and validation, one module for each group of kinds.

Each module offers `KINDS`, from (group, kind) to its `KindRules`. What belongs: what a client can
observe of one kind. What does not: controllers, and anything common to all kinds (`strategy`).
"""
