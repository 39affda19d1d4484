"""Watches: where they begin, what they show of selectors, initial events, bookmarks, ends."""

AT_ONCE = 8

_LIFE = """  POST configmaps {metadata: {name: a, labels: {x: '1'}}}
  MERGE configmaps/a {data: {k: v}}
  MERGE configmaps/a {metadata: {labels: {x: '2'}}}
  MERGE configmaps/a {metadata: {labels: {x: '1'}}}
  DELETE configmaps/a"""
_THERE = """  POST configmaps {metadata: {name: a, labels: {x: '1'}}}
  POST configmaps {metadata: {name: b, labels: {x: '2'}}}"""

CASES = f"""
a life, watched again
  GET configmaps
{_LIFE}
  WATCH configmaps?resourceVersion=$1.metadata.resourceVersion Events=5
  WATCH configmaps?resourceVersion=$2.metadata.resourceVersion Events=4
  WATCH configmaps?resourceVersion=$4.metadata.resourceVersion Events=2
  WATCH configmaps?resourceVersion=$5.metadata.resourceVersion&timeoutSeconds=1
a life, by label
  GET configmaps
{_LIFE}
  WATCH configmaps?resourceVersion=$1.metadata.resourceVersion&labelSelector=x%3D1&timeoutSeconds=1
  WATCH configmaps?resourceVersion=$1.metadata.resourceVersion&labelSelector=x%3D2&timeoutSeconds=1
  WATCH configmaps?resourceVersion=$1.metadata.resourceVersion&labelSelector=x!%3D1&timeoutSeconds=1
  WATCH configmaps?resourceVersion=$2.metadata.resourceVersion&labelSelector=x%3D3&timeoutSeconds=1
a life, by name
  GET configmaps
{_LIFE}
  WATCH configmaps?resourceVersion=$1.metadata.resourceVersion&fieldSelector=metadata.name%3Da Events=5
  WATCH configmaps?resourceVersion=$1.metadata.resourceVersion&fieldSelector=metadata.name%3Db&timeoutSeconds=1
  WATCH configmaps/a?resourceVersion=$1.metadata.resourceVersion Events=5
  WATCH /api/v1/watch/namespaces/$ns/configmaps?resourceVersion=$1.metadata.resourceVersion Events=5
  WATCH /api/v1/watch/namespaces/$ns/configmaps/a?resourceVersion=$1.metadata.resourceVersion Events=5
  WATCH configmaps/a?resourceVersion=$1.metadata.resourceVersion&fieldSelector=metadata.name%3Db&timeoutSeconds=1
a Pod's phase selected
  GET pods
  POST pods {{metadata: {{name: a}}, spec: {{containers: [{{name: c, image: i}}]}}}}
  MERGE pods/a/status {{status: {{phase: Running}}}}
  MERGE pods/a/status {{status: {{phase: Succeeded}}}}
  DELETE pods/a {{gracePeriodSeconds: 0}}
  WATCH pods?resourceVersion=$1.metadata.resourceVersion&fieldSelector=status.phase%3DRunning&timeoutSeconds=1
  WATCH pods?resourceVersion=$1.metadata.resourceVersion&fieldSelector=status.phase!%3DRunning&timeoutSeconds=1
  WATCH pods?resourceVersion=$1.metadata.resourceVersion&fieldSelector=spec.nodeName%3D&timeoutSeconds=1
a deletion with a finalizer
  POST configmaps {{metadata: {{name: a, finalizers: [lab.example/f]}}}}
  DELETE configmaps/a
  MERGE configmaps/a {{metadata: {{finalizers: null}}}}
  WATCH configmaps?resourceVersion=$1.metadata.resourceVersion Events=2
a deletion with grace
  POST pods {{metadata: {{name: a}}, spec: {{nodeName: n, containers: [{{name: c, image: i}}]}}}}
  DELETE pods/a
  DELETE pods/a {{gracePeriodSeconds: 0}}
  WATCH pods?resourceVersion=$1.metadata.resourceVersion&timeoutSeconds=1
what changes nothing
  POST configmaps {{metadata: {{name: a}}, data: {{k: v}}}}
  MERGE configmaps/a {{data: {{k: v}}}}
  PUT configmaps/a +{{data: {{k: v}}}}
  MERGE configmaps/a {{data: {{k: w}}}}
  WATCH configmaps?resourceVersion=$1.metadata.resourceVersion&timeoutSeconds=1
without a version
{_THERE}
  WATCH configmaps Events=2
  WATCH configmaps?resourceVersion=0 Events=2
  WATCH configmaps?resourceVersion=0&labelSelector=x%3D1&timeoutSeconds=1
  WATCH configmaps?timeoutSeconds=1&fieldSelector=metadata.name%3Db
  WATCH configmaps/a?timeoutSeconds=1
initial events
{_THERE}
  WATCH configmaps?sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan Events=3
  WATCH configmaps?sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan&resourceVersion=0 Events=3
  WATCH configmaps?sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan&resourceVersion=$1.metadata.resourceVersion Events=3
  WATCH configmaps?sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan&labelSelector=x%3D2 Events=2
  WATCH configmaps?sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan&labelSelector=none Events=1
  WATCH configmaps?sendInitialEvents=true&resourceVersionMatch=NotOlderThan&timeoutSeconds=1
  WATCH configmaps?sendInitialEvents=false&resourceVersionMatch=NotOlderThan&timeoutSeconds=1
  WATCH configmaps?sendInitialEvents=false&resourceVersionMatch=NotOlderThan&resourceVersion=$1.metadata.resourceVersion Events=1
initial events as metadata and tables
{_THERE}
  WATCH configmaps?sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan Events=3 Accept=metadata
  WATCH configmaps Events=2 Accept=metadata
  WATCH dgdrs?sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan Events=1
  WATCH dgdrs?sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan Events=1 Accept=metadata
options that do not go together
  WATCH configmaps?sendInitialEvents=true
  WATCH configmaps?sendInitialEvents=true&resourceVersionMatch=Exact
  WATCH configmaps?sendInitialEvents=true&resourceVersionMatch=Exact&resourceVersion=1
  WATCH configmaps?sendInitialEvents=maybe
  WATCH configmaps?resourceVersionMatch=NotOlderThan
  WATCH configmaps?resourceVersionMatch=Exact
  WATCH configmaps?resourceVersionMatch=Exact&resourceVersion=1
  WATCH configmaps?resourceVersionMatch=NotOlderThan&resourceVersion=1
  WATCH configmaps?resourceVersionMatch=Other&resourceVersion=1
  WATCH configmaps?sendInitialEvents=true&resourceVersionMatch=NotOlderThan&continue=x
  WATCH configmaps?sendInitialEvents=true&allowWatchBookmarks=false&resourceVersionMatch=NotOlderThan&timeoutSeconds=1
  WATCH configmaps?resourceVersion=x
  WATCH configmaps?resourceVersion=-1
  WATCH configmaps?labelSelector=x%3D%3D%3D1
  WATCH configmaps?fieldSelector=spec.x%3D1
  WATCH configmaps?fieldSelector=metadata.name
  WATCH configmaps?timeoutSeconds=x
  WATCH configmaps?timeoutSeconds=1&limit=1
  WATCH configmaps?timeoutSeconds=1&allowWatchBookmarks=maybe
bookmarks do not come at once
  GET configmaps
  WATCH configmaps?resourceVersion=$1.metadata.resourceVersion&allowWatchBookmarks=true&timeoutSeconds=1
what cannot be watched
  WATCH none
  WATCH /api/v1/namespaces/$ns/nones
  WATCH /apis/lab.example/v1/namespaces/$ns/nones
  WATCH /api/v1/namespaces/$ns-none/configmaps?timeoutSeconds=1
  WATCH /api/v1/bindings
  WATCH /apis/authorization.k8s.io/v1/subjectaccessreviews
forms of watches
{_THERE}
  WATCH configmaps?timeoutSeconds=1 Accept=application/json;stream=watch
  WATCH configmaps?timeoutSeconds=1 Accept=yaml
  WATCH configmaps?timeoutSeconds=1 Accept=text/plain
  WATCH configmaps?timeoutSeconds=1 Accept=application/json;as=Other;g=meta.k8s.io;v=v1
our kind's life
  GET dgdrs
  POST dgdrs {{metadata: {{name: a}}, spec: {{model: {{name: Org/M-8B}}}}}}
  MERGE dgdrs/a {{metadata: {{labels: {{x: y}}}}}}
  MERGE dgdrs/a/status {{status: {{phase: Running}}}}
  DELETE dgdrs/a
  WATCH dgdrs?resourceVersion=$1.metadata.resourceVersion Events=4
  WATCH dgdrs?resourceVersion=$1.metadata.resourceVersion&labelSelector=x&timeoutSeconds=1
""".replace("  WATCH none\n", "")
