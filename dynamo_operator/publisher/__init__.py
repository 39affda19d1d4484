"""The sidecar that turns a search's snapshots into Candidates.

`observe` follows the snapshot file and the planner's container, `plan` says what has to change,
`apply` changes it, `outcome` says how it ended, `follow` is the loop around them, `__main__` the
executable. Light by contract: it starts with every Job, so it loads neither kubernetes_asyncio nor
a manager, controller or cache.
"""
