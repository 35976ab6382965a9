{{/* What a schema cannot say in a sentence. */}}
{{- define "kas.checks" -}}
{{- $gitlab := .Values.gitlab -}}
{{- if not .Values.image.repository -}}
{{- fail "image.repository is missing: where the image kas is, such as registry.example.com/kas" -}}
{{- end -}}
{{- if and $gitlab.address .Values.directory.secret -}}
{{- fail "gitlab.address and directory.secret are both set: either GitLab says who is who, or a directory file" -}}
{{- end -}}
{{- if not (or $gitlab.address .Values.directory.secret) -}}
{{- fail "nobody says who is who: set gitlab.address, or directory.secret to a Secret with a directory file" -}}
{{- end -}}
{{- if and $gitlab.address (not (regexMatch "^https?://[^/\\s]+(/\\S*)?$" $gitlab.address)) -}}
{{- fail (printf "gitlab.address is %q: expected https:// or http://, then a host" $gitlab.address) -}}
{{- end -}}
{{- if and $gitlab.address (not $gitlab.secret) -}}
{{- fail "gitlab.secret is missing: the Secret with what kas and GitLab share" -}}
{{- end -}}
{{- if not .Values.privateApi.secret -}}
{{- fail "privateApi.secret is missing: a Secret that all replicas share, made once by openssl rand -base64 32" -}}
{{- end -}}
{{- if and .Values.proxyProtocol (not .Values.trustedProxies) -}}
{{- fail "proxyProtocol needs trustedProxies: whose PROXY headers are believed has to be said" -}}
{{- end -}}
{{- if and .Values.ingress.enabled (not .Values.ingress.host) -}}
{{- fail "ingress.host is missing: the name by which agents and kubectl reach kas" -}}
{{- end -}}
{{- if and .Values.gateway.enabled (not .Values.gateway.parentRefs) -}}
{{- fail "gateway.parentRefs is missing: the Gateway by which agents and kubectl reach kas" -}}
{{- end -}}
{{- if and (include "kas.hasFront" .) (eq (include "kas.urlPathPrefix" .) "/") -}}
{{- fail "urlPathPrefix is /, which agents have behind an ingress or gateway: expected another path, such as /k8s-proxy/" -}}
{{- end -}}
{{- $config := include "kas.config" . | fromYaml -}}
{{- if ne (dig "agent" "kubernetes_api" "url_path_prefix" "" $config | toString) (include "kas.urlPathPrefix" .) -}}
{{- fail "customConfig sets agent.kubernetes_api.url_path_prefix: give urlPathPrefix, which ingress, gateway and notes go by" -}}
{{- end -}}
{{- range $key, $port := dict "agent.listen" 8150 "agent.kubernetes_api.listen" 8154 "api.listen" 8153 "private_api.listen" 8155 "observability.listen" 8151 "cluster.listen" 8156 -}}
{{- $listen := $config -}}
{{- range splitList "." $key -}}{{- $listen = default dict (get $listen .) -}}{{- end -}}
{{- if and $listen.address (not (hasSuffix (printf ":%v" $port) (toString $listen.address))) -}}
{{- fail (printf "customConfig sets %s.address to %q: expected port %v, which the Service and the pods have" $key $listen.address $port) -}}
{{- end -}}
{{- end -}}
{{- if and .Values.gateway.enabled (not (.Capabilities.APIVersions.Has "gateway.networking.k8s.io/v1")) -}}
{{- fail "gateway.enabled is true, and the cluster knows no HTTPRoute: install the Gateway API first" -}}
{{- end -}}
{{- if and .Values.metrics.serviceMonitor.enabled (not (.Capabilities.APIVersions.Has "monitoring.coreos.com/v1")) -}}
{{- fail "metrics.serviceMonitor.enabled is true, and the cluster knows no ServiceMonitor: install the Prometheus Operator first" -}}
{{- end -}}
{{- if and .Values.autoscaling.enabled (gt (int .Values.autoscaling.minReplicas) (int .Values.autoscaling.maxReplicas)) -}}
{{- fail "autoscaling.minReplicas is above autoscaling.maxReplicas" -}}
{{- end -}}
{{- end -}}
