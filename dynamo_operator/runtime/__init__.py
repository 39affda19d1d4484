"""The controller runtime: client, cache, controllers, manager; it knows no kind of ours.

Names are exported lazily (PEP 562): importing `dynamo_operator.runtime.client` alone loads neither
manager, controllers nor cache.
"""
