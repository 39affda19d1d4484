{{- /* The operator's configuration file. */ -}}
{{- define "dynamo-operator.config" -}}
{{- $config := deepCopy .Values.config -}}
{{- $webhook := dict "host" "0.0.0.0" "port" 9443 "namespace" .Release.Namespace "serviceName" (include "dynamo-operator.webhookService" .) "secretName" (include "dynamo-operator.webhookSecret" .) "configurationName" (include "dynamo-operator.webhookConfiguration" .) -}}
{{- if eq (include "dynamo-operator.webhooks" .) "manual" -}}
{{- $_ := set $webhook "certDir" "/var/run/dynamo-operator/webhook-certificate" -}}
{{- end -}}
{{- $metrics := dict "port" nil -}}
{{- if include "dynamo-operator.servesMetrics" . -}}
{{- $metrics = dict "bindAddress" "0.0.0.0" "port" .Values.metrics.port "secure" true -}}
{{- end -}}
{{- $_ := set $config "operatorImage" (include "dynamo-operator.image" .) -}}
{{- $_ := set $config "watchNamespaces" (include "dynamo-operator.namespaces" . | fromJsonArray) -}}
{{- $_ := set $config "discovery" (dict "backend" .Values.discoveryBackend) -}}
{{- $_ := set $config "gpu" (dict "discoveryEnabled" (not (empty (include "dynamo-operator.discoversGpus" .)))) -}}
{{- $_ := set $config "webhooks" (include "dynamo-operator.webhooks" .) -}}
{{- $_ := set $config "featureGates" (dict "dgdrV1Beta2" .Values.dgdrV1Beta2.enabled) -}}
{{- $_ := set $config "leaderElection" (merge (dict "enabled" true "id" (include "dynamo-operator.leaseName" .) "namespace" (include "dynamo-operator.leaseNamespace" .)) (default dict $config.leaderElection)) -}}
{{- $_ := set $config "server" (dict "healthProbe" (dict "bindAddress" "0.0.0.0" "port" 8081) "metrics" $metrics "webhook" $webhook) -}}
{{- toYaml $config -}}
{{- end -}}
