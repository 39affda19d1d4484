"""Events: written in one group and read in the other."""

_OLD = "involvedObject: {kind: Pod, name: p, namespace: $ns, uid: u}, reason: R"
_FIELDS = {
    "regarding": "{kind: Pod, name: p, namespace: $ns, uid: u}",
    "reason": "R",
    "action": "A",
    "type": "Normal",
    "reportingController": "lab.example/c",
    "reportingInstance": "i",
    "eventTime": "'2026-01-01T00:00:00.000001Z'",
}


def _new(**changed: str) -> str:
    fields = {**_FIELDS, **changed}
    return ", ".join(f"{name}: {value}" for name, value in fields.items())


def _tried(**changed: str) -> str:
    return f"POST events.events.k8s.io?dryRun=All {{metadata: {{name: a}}, {_new(**changed)}}}"


CASES = f"""
an Event of the old kind in both groups
  POST events {{metadata: {{name: a}}, {_OLD}, message: m, type: Normal, source: {{component: c, host: h}}, firstTimestamp: '2026-01-01T00:00:00Z', lastTimestamp: '2026-01-01T00:00:10Z', count: 3}}
  GET events.events.k8s.io/a
  GET events.events.k8s.io
  MERGE events.events.k8s.io/a {{note: n}}
  MERGE events.events.k8s.io/a {{metadata: {{labels: {{x: y}}}}}}
  GET events/a
  MERGE events/a {{message: n, count: 4}}
  GET events.events.k8s.io/a
  DELETE events.events.k8s.io/a
  GET events/a
an Event of the new kind in both groups
  POST events.events.k8s.io {{metadata: {{name: a}}, {_new(note="n")}}}
  GET events/a
  GET events?fieldSelector=involvedObject.name%3Dp,reason%3DR
  GET events.events.k8s.io?fieldSelector=regarding.name%3Dp
  MERGE events.events.k8s.io/a {{series: {{count: 2, lastObservedTime: '2026-01-01T00:01:00.000002Z'}}}}
  GET events/a
  MERGE events.events.k8s.io/a {{reason: S}}
  PUT events.events.k8s.io/a +{{metadata: {{annotations: {{a: b}}}}}}
  DELETE events/a
  GET events.events.k8s.io/a
new Events that are none
  POST events.events.k8s.io?dryRun=All {{metadata: {{name: a}}}}
  {_tried(type="Strange")}
  {_tried(reportingController="''")}
  {_tried(reportingController="a b")}
  {_tried(reportingInstance="''")}
  {_tried(action="''")}
  {_tried(reason="''")}
  {_tried(deprecatedCount="2")}
  {_tried(series="{count: 1}")}
  {_tried(regarding="{kind: Pod, name: p, namespace: other}")}
old Events that are none
  POST events?dryRun=All {{metadata: {{name: a}}}}
  POST events?dryRun=All {{metadata: {{name: a}}, involvedObject: {{kind: Pod, name: p, namespace: other}}}}
  POST events?dryRun=All {{metadata: {{name: a}}, {_OLD}, type: Strange}}
  POST events?dryRun=All {{metadata: {{name: a}}, involvedObject: {{kind: Node, name: p}}, reason: R}}
"""
