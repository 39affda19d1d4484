{{- /* Values that the schema allows one by one, but that do not go together; stops with one line. */ -}}
{{- define "dynamo-operator.validate" -}}
{{- $image := .Values.controllerManager.manager.image -}}
{{- if not (kindIs "string" $image.tag) -}}
{{- fail "controllerManager.manager.image.tag is not text: quote it in the values (tag: \"5060547\"), or give it with --set-string" -}}
{{- end -}}
{{- $restriction := .Values.namespaceRestriction -}}
{{- if and $restriction.targetNamespace $restriction.targetNamespaces -}}
{{- fail "namespaceRestriction.targetNamespace and .targetNamespaces are both set: one of them will do" -}}
{{- end -}}
{{- if and (not $restriction.enabled) (or $restriction.targetNamespace $restriction.targetNamespaces) -}}
{{- fail "namespaceRestriction names namespaces, but is not enabled: set namespaceRestriction.enabled=true, or leave them out" -}}
{{- end -}}
{{- $webhook := .Values.webhook -}}
{{- if and $webhook.certManager.enabled $webhook.certificateSecret.external -}}
{{- fail "webhook.certManager.enabled and webhook.certificateSecret.external are both true: one certificate will do" -}}
{{- end -}}
{{- if and $restriction.enabled (eq (include "dynamo-operator.webhooks" .) "auto") -}}
{{- fail "namespaceRestriction is enabled, and a certificate of the operator's own needs rights to the whole cluster: set webhook.certManager.enabled=true, or webhook.certificateSecret.external=true with webhook.caBundle, or webhook.enabled=false" -}}
{{- end -}}
{{- if and $webhook.certificateSecret.external (not $webhook.caBundle) (ne (include "dynamo-operator.webhooks" .) "off") -}}
{{- fail "webhook.caBundle is missing: the API server trusts the certificate of webhook.certificateSecret.external by it (base64 of a PEM)" -}}
{{- end -}}
{{- if and $webhook.certificateSecret.external (not $webhook.certificateSecret.name) -}}
{{- fail "webhook.certificateSecret.name is missing: which Secret of yours holds tls.crt and tls.key" -}}
{{- end -}}
{{- if has (int .Values.metrics.port) (list 8081 9443) -}}
{{- fail (printf "metrics.port is %d, where probes (8081) or webhooks (9443) are served: another one will do" (int .Values.metrics.port)) -}}
{{- end -}}
{{- if and .Values.metrics.serviceMonitor.enabled (not (include "dynamo-operator.servesMetrics" .)) -}}
{{- fail "metrics.serviceMonitor.enabled is true, but no metrics are served: set metrics.enabled=true" -}}
{{- end -}}
{{- if not $restriction.enabled -}}
{{- include "dynamo-operator.refuseBesideAnother" . -}}
{{- end -}}
{{- end -}}

{{- /* Two operators of all namespaces would work on the same objects, each by its own Lease. */ -}}
{{- define "dynamo-operator.refuseBesideAnother" -}}
{{- range (lookup "rbac.authorization.k8s.io/v1" "ClusterRole" "" "").items -}}
{{- $labels := default dict .metadata.labels -}}
{{- if and (hasSuffix "-manager" .metadata.name) (eq (get $labels "app.kubernetes.io/part-of") "dynamo-operator") (eq (get $labels "app.kubernetes.io/component") "rbac") -}}
{{- if not (include "dynamo-operator.isOurs" (list $ .apiVersion .kind "" .metadata.name)) -}}
{{- $made := default dict .metadata.annotations -}}
{{- $by := ternary (printf "release %s in namespace %s" (get $made "meta.helm.sh/release-name") (get $made "meta.helm.sh/release-namespace")) "an installation without Helm" (hasKey $made "meta.helm.sh/release-name") -}}
{{- fail (printf "an operator works in all namespaces already, by %s (ClusterRole %s): uninstall that one, or install with namespaceRestriction.enabled=true" $by .metadata.name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
