{{- /* Stop with one line if a CRD of that name is there and does not serve our version. Argument: (list $ crd) */ -}}
{{- define "dynamo-operator.refuseForeignCrd" -}}
{{- $crd := index . 1 -}}
{{- $name := $crd.metadata.name -}}
{{- $ours := (first $crd.spec.versions).name -}}
{{- $found := lookup $crd.apiVersion $crd.kind "" $name -}}
{{- if $found -}}
{{- $served := list -}}
{{- range $found.spec.versions -}}
{{- if .served -}}{{- $served = append $served .name -}}{{- end -}}
{{- end -}}
{{- if not (has $ours $served) -}}
{{- fail (printf "CRD %s serves %s, not %s; it is left as it is: %s" $name (default "nothing" (join ", " $served)) $ours (include "dynamo-operator.waysOut" $crd)) -}}
{{- end -}}
{{- if $found.metadata.deletionTimestamp -}}
{{- fail (printf "CRD %s is being deleted: wait until it is gone, and install again" $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "dynamo-operator.waysOut" -}}
{{- if ne .spec.names.kind "DynamoPoolRelay" -}}
install with dgdrV1Beta2.enabled=false (DynamoPoolRelays only), or search in a cluster without that CRD and bring the Candidates here (`dynamo-operator candidate deploy --context`), or replace it {{ else -}}
replace it {{ end -}}
with `dynamo-operator crds apply --take-over` when no object of it exists
{{- end -}}
