"""An embedded Kubernetes API server: real semantics, one process, no thread, no wall clock.

What belongs: everything a client can observe of kube-apiserver. What does not: controllers (those
are `dynamo_operator.local_cluster`) and anything of the client side: each is the other's oracle.

How a request runs: `api_server` parses (`routes`), authenticates, authorizes (`rbac`) and hands over
to a handler (`reads`, `writes`, `deletion`, `subresources`, `reviews`); those ask the resource's
`Strategy` (`resources`) about its kind, and commit to `storage`. The purely functional half has no I/O and
knows no request:

- `crds.served_resources(crd) -> list[Resource]`: what a CustomResourceDefinition serves, each with its
  `CustomResourceStrategy`; `crds.with_accepted_names(crd, now) -> crd`: the object with the status
  that the naming and establishing controllers would write (conditions NamesAccepted, Established,
  acceptedNames, storedVersions).
- `builtin_validation.builtin_strategy(group, kind) -> Strategy` for every built-in kind
  (CustomResourceDefinition included).
- `apply.apply_patch(live, applied, *, manager, schema, api_version, subresource, force, now) -> dict`:
  the merged object with its managedFields; `live` is None on create; raises
  `apply.ApplyConflict(conflicts: list[tuple[manager, path]])`.
- `apply.update_managed_fields(new, old, *, manager, schema, api_version, subresource, now) -> dict`:
  `new` with managedFields after a write that is no apply; `old` is None on create.
- `patches.json_patch(obj, operations)`, `patches.merge_patch(obj, patch)`,
  `patches.strategic_merge_patch(obj, patch, schema)`; each returns a new object and raises
  `patches.PatchError(detail)`.

`schema` is `Strategy.apply_schema`, a structural (OpenAPI v3) schema with `x-kubernetes-*` extensions.
Objects are plain JSON values, never changed in place by any of these: structure may be shared.
"""
