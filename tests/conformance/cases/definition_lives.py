"""The life of a CustomResourceDefinition: served, changed, and gone with its objects."""

_ROOT = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_NAME = "gears.$ns.example.test"
_SCHEMA = "schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}"
_IDENTITY = "apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition"
_GEAR = "kind: Gear, apiVersion: $ns.example.test"


def _spec(*versions: str) -> str:
    listed = ", ".join(f"{{{version}, {_SCHEMA}}}" for version in versions)
    names = (
        "names: {plural: gears, singular: gear, kind: Gear, listKind: GearList, shortNames: [gr]}"
    )
    return f"spec: {{group: $ns.example.test, scope: Namespaced, {names}, versions: [{listed}]}}"


_ONE = _spec("name: v1, served: true, storage: true")
_TWO = _spec("name: v1, served: true, storage: false", "name: v2, served: true, storage: true")
_TWO_ALONE = _spec("name: v2, served: true, storage: true")

AT_ONCE = 3  # what takes effect later is waited for

CASES = f"""
created, used and deleted
  POST {_ROOT} ={{{_IDENTITY}, metadata: {{name: {_NAME}}}, {_ONE}}}
  GET {_ROOT}/{_NAME}/status Until=200 Keep=spec
  GET /apis/$ns.example.test/v1/namespaces/$ns/gears Until=200 Keep=items
  GET /apis/$ns.example.test/v1 Until=200 Keep=groupVersion
  POST /apis/$ns.example.test/v1/namespaces/$ns/gears ={{{_GEAR}/v1, metadata: {{name: a, finalizers: [lab.example/f]}}, spec: {{x: 1}}}}
  POST /apis/$ns.example.test/v1/namespaces/$ns/gears ={{{_GEAR}/v1, metadata: {{name: b}}}}
  DELETE {_ROOT}/{_NAME} Keep=kind
  GET /apis/$ns.example.test/v1/namespaces/$ns/gears/b Until=404
  MERGE /apis/$ns.example.test/v1/namespaces/$ns/gears/a Keep=kind {{metadata: {{finalizers: null}}}}
  GET {_ROOT}/{_NAME} Until=404
  GET /apis/$ns.example.test/v1/namespaces/$ns/gears Until=404
a second version comes, and the first goes
  POST {_ROOT} ={{{_IDENTITY}, metadata: {{name: {_NAME}}}, {_ONE}}}
  GET /apis/$ns.example.test/v1/namespaces/$ns/gears Until=200 Keep=items
  POST /apis/$ns.example.test/v1/namespaces/$ns/gears ={{{_GEAR}/v1, metadata: {{name: a}}, spec: {{x: 1}}}}
  MERGE {_ROOT}/{_NAME} Keep=spec {{{_TWO}}}
  GET /apis/$ns.example.test/v2/namespaces/$ns/gears/a Until=200
  PUT /apis/$ns.example.test/v2/namespaces/$ns/gears/a +{{spec: {{y: 2}}}}
  GET /apis/$ns.example.test/v1/namespaces/$ns/gears/a Until=200
  MERGE {_ROOT}/{_NAME} {{{_TWO_ALONE}}}
  MERGE {_ROOT}/{_NAME}/status Keep=kind {{status: {{storedVersions: [v2]}}}}
  MERGE {_ROOT}/{_NAME} Keep=spec {{{_TWO_ALONE}}}
  GET /apis/$ns.example.test/v1/namespaces/$ns/gears/a Until=404
  GET /apis/$ns.example.test/v2/namespaces/$ns/gears/a Until=200
  DELETE {_ROOT}/{_NAME} Keep=kind
  GET {_ROOT}/{_NAME} Until=404
what may not change
  POST {_ROOT} ={{{_IDENTITY}, metadata: {{name: {_NAME}}}, {_ONE}}}
  GET /apis/$ns.example.test/v1/namespaces/$ns/gears Until=200 Keep=items
  MERGE {_ROOT}/{_NAME} {{spec: {{scope: Cluster}}}}
  MERGE {_ROOT}/{_NAME} {{spec: {{group: other.example.test}}}}
  MERGE {_ROOT}/{_NAME} Keep=kind {{spec: {{names: {{kind: Wheel}}}}}}
  MERGE {_ROOT}/{_NAME} {{spec: {{versions: []}}}}
  MERGE {_ROOT}/{_NAME}/status {{status: {{storedVersions: []}}}}
  DELETE {_ROOT}/{_NAME} Keep=kind
"""
