"""Headers: what bodies may be written in, and what answers come in."""

_MAP = "POST configmaps {metadata: {name: a, labels: {x: y}}, data: {k: v}}"
_ACCEPTED = (
    "application/json", "application/yaml", "*/*", "application/*", "text/*", "application/json;q=0.5,application/yaml",
    "application/yaml;q=0.5,application/json", "text/html,*/*;q=0.8", "application/json;charset=utf-8", "application/json;pretty=1",
    "APPLICATION/JSON", "json", "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
    "application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json", "application/json;as=Table;v=v2;g=meta.k8s.io,application/json",
    "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io", "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
    "application/yaml;as=Table;v=v1;g=meta.k8s.io", "application/yaml;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
    "application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io,application/json", "application/json;as=Table",
    "application/json;v=v1", "application/json;g=meta.k8s.io;v=v1;as=Table;other=x",
)  # fmt: skip


def _all(method: str, target: str) -> str:
    return "\n".join(f"  {method} {target} Accept={accept}" for accept in _ACCEPTED)


CASES = f"""
forms of an object
  {_MAP}
{_all("GET", "configmaps/a")}
forms of a list
  {_MAP}
{_all("GET", "configmaps")}
forms of our kind
  POST dgdrs {{metadata: {{name: a}}, spec: {{model: {{name: Org/M-8B}}}}}}
{_all("GET", "dgdrs/a")}
{_all("GET", "dgdrs")}
forms of an error
{_all("GET", "configmaps/none")}
forms of a write
  POST configmaps Accept=table {{metadata: {{name: a}}}}
  POST configmaps Accept=metadata {{metadata: {{name: b}}}}
  POST configmaps Accept=yaml {{metadata: {{name: c}}}}
  MERGE configmaps/a Accept=table {{data: {{k: v}}}}
  MERGE configmaps/a Accept=metadata {{data: {{k: w}}}}
  APPLY configmaps/a?fieldManager=m Accept=metadata {{data: {{l: w}}}}
  PUT configmaps/a Accept=yaml +{{data: {{k: x}}}}
  DELETE configmaps/a Accept=metadata
  DELETE configmaps/b Accept=yaml
YAML bodies
  POST configmaps Content-Type=application/yaml "{{apiVersion: v1, kind: ConfigMap, metadata: {{name: a}}, data: {{k: v}}}}"
  POST configmaps Content-Type=application/yaml "apiVersion: v1\\nkind: ConfigMap\\nmetadata:\\n  name: b\\ndata:\\n  k: |\\n    lines\\n    of text\\n"
  POST configmaps Content-Type=application/yaml "{{apiVersion: v1, kind: ConfigMap, metadata: {{name: c}}, data: {{k: 1}}}}"
  POST configmaps Content-Type=application/yaml "{{apiVersion: v1, kind: ConfigMap, metadata: {{name: d}}, data: {{k: yes}}}}"
  POST configmaps Content-Type=application/yaml "{{apiVersion: v1, kind: ConfigMap, metadata: {{name: e}}, data: {{1: a}}}}"
  POST configmaps Content-Type=application/yaml "a: [b"
  POST configmaps Content-Type=application/yaml "---\\n{{apiVersion: v1, kind: ConfigMap, metadata: {{name: f}}}}"
  POST configmaps Content-Type=application/yaml ""
  POST configmaps Content-Type=application/x-yaml "{{apiVersion: v1, kind: ConfigMap, metadata: {{name: g}}}}"
  POST configmaps Content-Type=text/yaml "{{apiVersion: v1, kind: ConfigMap, metadata: {{name: h}}}}"
  PUT configmaps/a Content-Type=application/yaml "{{apiVersion: v1, kind: ConfigMap, metadata: {{name: a}}, data: {{k: w}}}}"
  POST dgdrs Content-Type=application/yaml "{{apiVersion: nvidia.com/v1beta2, kind: DynamoGraphDeploymentRequest, metadata: {{name: a}}, spec: {{model: {{name: Org/M-8B}}}}}}"
  DELETE configmaps/a Content-Type=application/yaml "{{apiVersion: v1, kind: DeleteOptions, propagationPolicy: Background}}"
JSON where YAML is said, and the other way
  POST configmaps Content-Type=application/json "apiVersion: v1\\nkind: ConfigMap\\nmetadata: {{name: a}}"
  POST configmaps Content-Type=application/json;charset=utf-8 {{metadata: {{name: b}}}}
  POST configmaps Content-Type=APPLICATION/JSON {{metadata: {{name: c}}}}
  POST configmaps Content-Type=*/* {{metadata: {{name: d}}}}
  POST configmaps Content-Type=json {{metadata: {{name: e}}}}
protobuf
  {_MAP}
  GET dgdrs Accept=protobuf
  GET dgdrs/a Accept=protobuf
  GET dgdrs Accept=application/vnd.kubernetes.protobuf,application/json
compressed
  {_MAP}
  GET configmaps Accept-Encoding=gzip
  GET configmaps/a Accept-Encoding=gzip
pretty
  {_MAP}
  GET configmaps/a?pretty=true
  GET configmaps/a?pretty=false
tables of what they include
  {_MAP}
  GET configmaps?includeObject=Object Accept=table
  GET configmaps?includeObject=None Accept=table
  GET configmaps?includeObject=Metadata Accept=table
  GET configmaps?includeObject=Other Accept=table
  GET configmaps/a?includeObject=None Accept=table
"""
