"""The environment in which the real AISimulate runs locally: it plays the planner image.

Two layers in a cache directory: `upstream-*`, a virtual environment with AISimulate and Dynamo,
made once per upstream version; and `env-*`, a small one on top of it with our output adapter, made
anew whenever the adapter's code changes. Both are readable by every user, because containers that
play the planner run as another one. Nothing here knows Kubernetes.
"""
