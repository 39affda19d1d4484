"""The Dynamo deployment-search operator, and the controller runtime that it is built on.

Importing this package does nothing: take `dynamo_operator.runtime` to write controllers,
`reconcilers` to run ours inside your manager, `dynamo_operator.testing` to test without a cluster.
"""
