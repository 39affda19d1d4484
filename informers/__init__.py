"""Watch a cluster, keep a copy, hand out keys.

The generic half of a controller: stores with indexes, reflectors, shared informers, work queues and
rate limiters.
Standard library only; nothing here knows HTTP, a client or a kind. A transport plugs in through
`informers.list_watch.ListWatch`, measurements through `informers.observers`.
"""
