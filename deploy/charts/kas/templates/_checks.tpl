{{/* What a schema cannot say in a sentence. */}}
{{- define "kas.checks" -}}
{{- $gitlab := .Values.gitlab -}}
{{- $own := include "kas.ownConfig" . | fromYaml -}}
{{- include "kas.checkSections" (list "customConfig" (merge $own (dict "api" (dict "listen" dict))) (default dict .Values.customConfig)) -}}
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
{{- if and (not .Values.serviceAccount.create) (not .Values.serviceAccount.name) -}}
{{- fail "serviceAccount.name is missing: with serviceAccount.create: false, the account that kas has" -}}
{{- end -}}
{{- if and .Values.ingress.enabled (not .Values.ingress.host) -}}
{{- fail "ingress.host is missing: the name by which agents and kubectl reach kas" -}}
{{- end -}}
{{- if and .Values.gateway.enabled (not .Values.gateway.parentRefs) -}}
{{- fail "gateway.parentRefs is missing: the Gateway by which agents and kubectl reach kas" -}}
{{- end -}}
{{- with .Values.gateway.grpc -}}
{{- $refs := default $.Values.gateway.parentRefs .parentRefs -}}
{{- if and .enabled (not $refs) -}}
{{- fail "gateway.grpc.parentRefs is missing: the Gateway by which agents reach kas by gRPC" -}}
{{- end -}}
{{- $names := default (list "any name") .hostnames -}}
{{- $others := default (list "any name") $.Values.gateway.hostnames -}}
{{- $isAny := or (has "any name" $names) (has "any name" $others) -}}
{{- range $names -}}
{{- if and $.Values.gateway.enabled $.Values.gateway.grpc.enabled (eq (toJson $refs) (toJson $.Values.gateway.parentRefs)) (or $isAny (has . $others)) -}}
{{- fail (printf "gateway.grpc.hostnames has %s, which gateway.hostnames has too: a listener has routes of one kind for a name, so give agents by gRPC another" .) -}}
{{- end -}}
{{- end -}}
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
{{- if and .Values.gateway.enabled (not (include "kas.knows" (list . "gateway.networking.k8s.io/v1" "HTTPRoute"))) -}}
{{- fail "gateway.enabled is true, and the cluster knows no HTTPRoute: install the Gateway API 1.2 or later first" -}}
{{- end -}}
{{- if and .Values.gateway.grpc.enabled (not (include "kas.knows" (list . "gateway.networking.k8s.io/v1" "GRPCRoute"))) -}}
{{- fail "gateway.grpc.enabled is true, and the cluster knows no GRPCRoute: install the Gateway API 1.1 or later first" -}}
{{- end -}}
{{- range $key, $kind := dict "serviceMonitor" "ServiceMonitor" "podMonitor" "PodMonitor" "prometheusRule" "PrometheusRule" -}}
{{- if and (get $.Values.metrics $key).enabled (not (include "kas.knows" (list $ "monitoring.coreos.com/v1" $kind))) -}}
{{- fail (printf "metrics.%s.enabled is true, and the cluster knows no %s: install the Prometheus Operator first" $key $kind) -}}
{{- end -}}
{{- end -}}
{{- if and .Values.metrics.serviceMonitor.enabled .Values.metrics.podMonitor.enabled -}}
{{- fail "metrics.serviceMonitor and metrics.podMonitor are both enabled: each metric would be there twice" -}}
{{- end -}}
{{- if and .Values.autoscaling.enabled (gt (int .Values.autoscaling.minReplicas) (int .Values.autoscaling.maxReplicas)) -}}
{{- fail "autoscaling.minReplicas is above autoscaling.maxReplicas" -}}
{{- end -}}
{{- end -}}

{{/* Where the chart has keys below a key, customConfig has keys too: (list PATH OWN CUSTOM). */}}
{{- define "kas.checkSections" -}}
{{- $own := index . 1 -}}
{{- $path := index . 0 -}}
{{- range $key, $value := index . 2 -}}
{{- if hasKey $own $key -}}
{{- $at := printf "%s.%s" $path $key -}}
{{- $below := get $own $key -}}
{{- if kindIs "invalid" $value -}}
{{- fail (printf "%s is null: leave it out, and it is what the other values give" $at) -}}
{{- end -}}
{{- if kindIs "map" $below -}}
{{- if not (kindIs "map" $value) -}}
{{- fail (printf "%s is %s: expected keys and values below it" $at (toJson $value)) -}}
{{- end -}}
{{- include "kas.checkSections" (list $at $below $value) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
