"""Lists: pages, selectors by label and field, and which version of the world they show."""

from __future__ import annotations

from collections.abc import Iterator

_FIVE = "\n".join(
    f"  POST configmaps {{metadata: {{name: {n}, labels: {{x: '{i}', all: of-them}}}}}}"
    for i, n in enumerate("abcde")
)
_LABELLED = """  POST configmaps {metadata: {name: a, labels: {x: '1', y: 'a'}}}
  POST configmaps {metadata: {name: b, labels: {x: '2'}}}
  POST configmaps {metadata: {name: c, labels: {y: ''}}}
  POST configmaps {metadata: {name: d}}"""
_SELECTORS = (
    "x=1", "x==1", "x!=1", "x", "!x", "x in (1,2)", "x notin (1)", "x in ()", "x in (1", "x,y", "x,!y", "x>1", "x<2",
    "x>a", "y=", "y==''", "x=1,x=2", " x = 1 ", "x =1 , y", "", ",", "=", "x=1=2", "x===1", "x in 1", "a b", "!",
    "x=-", "x=a/b", "lab.example/x", "lab.example/x=1", "/x", "x/", "-x", "x!", "x notin", "in in (in)", "x=1,",
    "x=" + "v" * 64, "k" * 64, "x in (1,1)", "x in (,1)", "x gt 1", "!x=1",
)  # fmt: skip
_FIELDS = (
    "metadata.name=a", "metadata.name==a", "metadata.name!=a", "metadata.name=", "metadata.name", "metadata.namespace=$ns",
    "metadata.namespace=other", "metadata.name=a,metadata.name=b", "metadata.name=a,metadata.name!=b", "metadata.uid=x",
    "spec.x=1", "metadata.labels.x=1", "metadata.name in (a)", "", ",", "=a", "metadata.name=a\\,b", "metadata.name=a\\",
    "metadata.name>a", "data.k=v", "kind=ConfigMap",
)  # fmt: skip
_FIELDS_OF_KINDS = {
    "pods": ("spec.nodeName=", "spec.nodeName=n", "spec.restartPolicy=Always", "spec.schedulerName=default-scheduler",
             "spec.serviceAccountName=default", "spec.hostNetwork=false", "spec.hostNetwork=true", "status.phase=Pending", "status.phase!=Pending",
             "status.podIP=", "status.podIPs=", "status.nominatedNodeName=", "spec.containers=x", "status.conditions=x"),
    "events": ("involvedObject.kind=Pod", "involvedObject.name=p", "involvedObject.namespace=$ns", "involvedObject.uid=",
               "involvedObject.apiVersion=", "involvedObject.resourceVersion=", "involvedObject.fieldPath=", "reason=R",
               "reportingComponent=", "source=", "type=Normal", "count=1", "message=m"),
    "events.events.k8s.io": ("regarding.kind=Pod", "involvedObject.kind=Pod", "reason=R", "type=Normal", "reportingController="),
    "secrets": ("type=Opaque", "type=x", "data=x"),
    "jobs": ("status.successful=0", "status.successful=1", "status.active=0", "spec.suspend=true"),
    "cronjobs": ("spec.schedule=x",),
    "deployments": ("spec.replicas=1", "status.replicas=0"),
    "replicasets": ("status.replicas=0", "spec.replicas=1"),
    "replicationcontrollers": ("status.replicas=0", "spec.replicas=1"),
    "services": ("spec.clusterIP=None", "spec.type=ClusterIP", "spec.type=x", "spec.ports=x"),
    "resourcequotas": ("status.hard=x",),
    "dgdrs": ("metadata.name=a", "spec.model.name=x", "status.phase=Running"),
    "leases": ("spec.holderIdentity=x",),
    "persistentvolumeclaims": ("spec.volumeName=x", "status.phase=Pending"),
}  # fmt: skip
_CLUSTER_FIELDS = {
    "nodes": ("spec.unschedulable=true", "spec.unschedulable=false", "spec.podCIDR=x"),
    "namespaces": ("status.phase=Terminating", "status.phase=x", "spec.finalizers=kubernetes"),
    "persistentvolumes": ("spec.x=1",),
    "customresourcedefinitions": ("spec.group=none",),
    "validatingwebhookconfigurations": ("x=1",),
}
_ONE_OF_EACH = """  POST pods {metadata: {name: a}, spec: {containers: [{name: c, image: i}]}}
  POST events {metadata: {name: a}, involvedObject: {kind: Pod, name: p, namespace: $ns}, reason: R, type: Normal}
  POST secrets {metadata: {name: a}}
  POST services {metadata: {name: a}, spec: {clusterIP: None, ports: [{port: 80}]}}
  POST jobs {metadata: {name: a}, spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}}"""


def _encoded(text: str) -> str:
    for character, code in (("%", "%25"), ("=", "%3D"), (" ", "%20"), ("&", "%26"), ("+", "%2B")):
        text = text.replace(character, code)
    return text


def _selecting() -> Iterator[str]:
    yield "by labels"
    yield _LABELLED
    for selector in _SELECTORS:
        yield f"  GET configmaps?labelSelector={_encoded(selector)} Accept=metadata-list"
    yield "by fields"
    yield _LABELLED
    for selector in _FIELDS:
        yield f"  GET configmaps?fieldSelector={_encoded(selector)} Accept=metadata-list"
    yield "by fields of kinds"
    yield _ONE_OF_EACH
    for plural, fields in _FIELDS_OF_KINDS.items():
        for selector in fields:
            yield f"  GET {plural}?fieldSelector={_encoded(selector)} Accept=metadata-list"
    yield "by fields of kinds of clusters"
    for plural, fields in _CLUSTER_FIELDS.items():
        for selector in fields:
            yield f"  GET {plural}?labelSelector=none%3Dnone&fieldSelector={_encoded(selector)}"


def _versions() -> Iterator[str]:
    yield "versions and how they match"
    yield _FIVE
    yield "  DELETE configmaps/b"
    for version in (
        "",
        "0",
        "$3.metadata.resourceVersion",
        "999999999999",
        "x",
        "-1",
        "1.5",
        "18446744073709551616",
    ):
        for match in ("", "Exact", "NotOlderThan", "Other"):
            for limit in ("", "2"):
                query = "&".join(
                    f"{k}={v}"
                    for k, v in (
                        ("resourceVersion", version),
                        ("resourceVersionMatch", match),
                        ("limit", limit),
                    )
                    if v
                )
                if "9999" in version and match != "Exact":
                    continue  # waits for the version, for seconds
                yield f"  GET configmaps?{query} Accept=metadata-list"


CASES = (
    "\n".join([*_selecting(), *_versions()])
    + f"""
pages
{_FIVE}
  GET configmaps?limit=2
  GET configmaps?limit=2&continue=$6.metadata.continue
  GET configmaps?limit=2&continue=$7.metadata.continue
  GET configmaps?limit=5
  GET configmaps?limit=6
  GET configmaps?limit=0
  GET configmaps?limit=-1
  GET configmaps?limit=x
  GET configmaps?limit=2.5
  GET configmaps?continue=$6.metadata.continue
  GET configmaps?limit=500&continue=$6.metadata.continue
pages see one moment
{_FIVE}
  GET configmaps?limit=2
  DELETE configmaps/d
  POST configmaps {{metadata: {{name: f}}}}
  GET configmaps?limit=2&continue=$6.metadata.continue
  GET configmaps?limit=2&continue=$9.metadata.continue
pages of selected objects
{_FIVE}
  GET configmaps?limit=1&labelSelector=x+in+(1,3)
  GET configmaps?limit=1&labelSelector=x+in+(1,3)&continue=$6.metadata.continue
  GET configmaps?limit=1&fieldSelector=metadata.name!%3Da
  GET configmaps?limit=1&fieldSelector=metadata.name%3De
  GET configmaps?limit=2&labelSelector=all
pages at a version
{_FIVE}
  GET configmaps?limit=2&resourceVersion=$3.metadata.resourceVersion&resourceVersionMatch=Exact
  GET configmaps?limit=2&continue=$6.metadata.continue
  GET configmaps?limit=2&resourceVersion=0
  GET configmaps?limit=2&resourceVersion=$1.metadata.resourceVersion
  GET configmaps?limit=2&resourceVersion=$1.metadata.resourceVersion&resourceVersionMatch=NotOlderThan
  GET configmaps?continue=$6.metadata.continue&resourceVersion=$1.metadata.resourceVersion
  GET configmaps?continue=$6.metadata.continue&resourceVersion=0
  GET configmaps?continue=$6.metadata.continue&resourceVersionMatch=Exact
  GET configmaps?continue=$6.metadata.continue&resourceVersion=0&resourceVersionMatch=NotOlderThan
tokens that are none
{_FIVE}
  GET configmaps?continue=x
  GET configmaps?continue=eyJ2IjoieCJ9
  GET configmaps?continue=e30
  GET configmaps?continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiIifQ
  GET configmaps?continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MCwic3RhcnQiOiJhIn0
  GET configmaps?continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6LTEsInN0YXJ0IjoiYVx1MDAwMCJ9
  GET configmaps?limit=2&continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6LTEsInN0YXJ0IjoiYVx1MDAwMCJ9
options of lists that are none
  GET configmaps?sendInitialEvents=true
  GET configmaps?sendInitialEvents=false
  GET configmaps?timeoutSeconds=x
  GET configmaps?timeoutSeconds=5
  GET configmaps?allowWatchBookmarks=true
  GET configmaps?watch=false
  GET configmaps?resourceVersionMatch=Exact&limit=2
  GET configmaps?unknown=parameter
  GET configmaps?pretty=true
empty lists
  GET configmaps
  GET configmaps?limit=2
  GET dgdrs
  GET dgdrs?limit=2
  GET pods Accept=table
  GET dgdrs Accept=table
  GET /api/v1/namespaces/$ns-none/configmaps
  GET /apis/nvidia.com/v1beta2/namespaces/$ns-none/dynamographdeploymentrequests
lists across namespaces
  POST configmaps {{metadata: {{name: a, labels: {{of: $ns}}}}}}
  POST namespaces {{metadata: {{name: $ns-z}}}}
  POST /api/v1/namespaces/$ns-z/configmaps {{metadata: {{name: b, labels: {{of: $ns}}}}}}
  GET /api/v1/configmaps?labelSelector=of%3D$ns
  GET /api/v1/configmaps?labelSelector=of%3D$ns&limit=1
  GET /api/v1/configmaps?labelSelector=of%3D$ns&limit=1&continue=$5.metadata.continue
  GET /api/v1/configmaps?labelSelector=of%3D$ns&fieldSelector=metadata.namespace%3D$ns
  POST /api/v1/configmaps {{metadata: {{name: a, namespace: $ns}}}}
  POST /api/v1/configmaps {{metadata: {{name: a}}}}
  DELETE /api/v1/configmaps?labelSelector=of%3D$ns
  GET /api/v1/configmaps?labelSelector=of%3D$ns
one object with versions
  POST configmaps {{metadata: {{name: a}}}}
  MERGE configmaps/a {{data: {{k: v}}}}
  GET configmaps/a?resourceVersion=$1.metadata.resourceVersion
  GET configmaps/a?resourceVersion=0
  GET configmaps/a?resourceVersion=x
  GET configmaps/none?resourceVersion=0
  GET configmaps/a?limit=x
our kind in pages
  POST dgdrs {{metadata: {{name: a}}, spec: {{model: {{name: Org/M-8B}}}}}}
  POST dgdrs {{metadata: {{name: b}}, spec: {{model: {{name: Org/M-8B}}}}}}
  GET dgdrs?limit=1
  GET dgdrs?limit=1&continue=$3.metadata.continue
  GET dgdrs?limit=1 Accept=table
  GET dgdrs?limit=1 Accept=metadata-list
"""
)
