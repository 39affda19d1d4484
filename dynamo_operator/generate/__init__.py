"""Everything that is made from the kinds and the declared permissions: manifests and docs.

`hack/generate` writes the files and, with `--check`, fails when one is stale.
"""
