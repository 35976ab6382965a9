{{- define "kas.hasFront" -}}
{{- if or .Values.ingress.enabled .Values.gateway.enabled }}yes{{ end -}}
{{- end -}}

{{/* GitLab's own calls are answered. */}}
{{- define "kas.hasRails" -}}
{{- if or .Values.gitlab.address .Values.api.secret }}yes{{ end -}}
{{- end -}}

{{- define "kas.urlPathPrefix" -}}
{{- default (include "kas.hasFront" . | empty | ternary "/" "/k8s-proxy/") .Values.urlPathPrefix -}}
{{- end -}}

{{- define "kas.tlsFiles" -}}
{{- if .Values.tls.secret }}
certificate_file: /etc/kas/tls.crt
key_file: /etc/kas/tls.key
{{- end }}
{{- end -}}

{{- define "kas.proxyKeys" -}}
{{- with .Values.trustedProxies }}
trusted_proxies: {{ toJson . }}
{{- end }}
{{- if .Values.proxyProtocol }}
proxy_protocol: true
{{- end }}
{{- end -}}

{{/* What kas reads, before customConfig. */}}
{{- define "kas.ownConfig" -}}
{{- if .Values.gitlab.address }}
gitlab:
  address: {{ .Values.gitlab.address | quote }}
  authentication_secret_file: /etc/kas/gitlab_secret
  {{- if .Values.gitlab.caCertSecret.name }}
  ca_certificate_file: /etc/kas/gitlab_ca.crt
  {{- end }}
  {{- with .Values.gitlab.externalUrl }}
  external_url: {{ . | quote }}
  {{- end }}
{{- else }}
directory: { file: /etc/kas/directory.yaml }
{{- end }}
agent:
  listen:
    address: ":8150"
    websocket: true
    listen_grace_period: {{ .Values.graces.listen }}
    {{- include "kas.tlsFiles" . | indent 4 }}
    {{- include "kas.proxyKeys" . | indent 4 }}
  kubernetes_api:
    url_path_prefix: {{ include "kas.urlPathPrefix" . }}
    {{- if .Values.websocketToken.secret }}
    websocket_token_secret_file: /etc/kas/websocket_token_secret
    {{- end }}
    listen:
      address: ":8154"
      listen_grace_period: {{ .Values.graces.listen }}
      shutdown_grace_period: {{ .Values.graces.shutdown }}
      {{- include "kas.tlsFiles" . | indent 6 }}
      {{- include "kas.proxyKeys" . | indent 6 }}
{{- if include "kas.hasRails" . }}
api:
  listen:
    address: ":8153"
    authentication_secret_file: /etc/kas/{{ .Values.api.secret | empty | ternary "gitlab_secret" "api_secret" }}
    listen_grace_period: {{ .Values.graces.listen }}
    {{- include "kas.tlsFiles" . | indent 4 }}
{{- end }}
private_api:
  listen:
    address: ":8155"
    authentication_secret_file: /etc/kas/private_api_secret
    listen_grace_period: {{ .Values.graces.listen }}
observability:
  listen: { address: ":8151" }
cluster:
  discovery: { kubernetes: { service: {{ include "kas.fullname" . }}-private } }
  listen: { address: ":8156" }
  {{- if .Values.privateApi.previous.secret }}
  previous_authentication_secret_file: /etc/kas/private_api_previous_secret
  {{- end }}
{{- end -}}

{{/* config.yaml. The same values are the same bytes: its keys are in order. */}}
{{- define "kas.config" -}}
{{- mergeOverwrite (include "kas.ownConfig" . | fromYaml) (deepCopy (default dict .Values.customConfig)) | toYaml -}}
{{- end -}}

{{/* Milliseconds of a duration as kas reads it: (list KEY TEXT). */}}
{{- define "kas.milliseconds" -}}
{{- $key := index . 0 -}}
{{- $text := index . 1 | toString -}}
{{- if not (regexMatch "^([0-9]+(\\.[0-9]+)?(h|ms|m|s))+$" $text) -}}
{{- fail (printf "%s is %q: expected a duration such as 300s or 5m" $key $text) -}}
{{- end -}}
{{- $units := dict "h" 3600000 "m" 60000 "s" 1000 "ms" 1 -}}
{{- $total := 0 -}}
{{- range regexFindAll "[0-9.]+(h|ms|m|s)" $text -1 -}}
{{- $unit := regexFind "[a-z]+$" . -}}
{{- $total = addf $total (mulf (float64 (trimSuffix $unit .)) (get $units $unit)) -}}
{{- end -}}
{{- ceil $total | int64 -}}
{{- end -}}

{{/* What kas takes at most to stop: the longest listen grace, since all leave at once, the shutdown grace, 10 s to end in
order; and 35 s of room. */}}
{{- define "kas.podGraceSeconds" -}}
{{- $config := include "kas.config" . | fromYaml -}}
{{- $kubernetes := dig "agent" "kubernetes_api" "listen" dict $config -}}
{{- $longest := 0 -}}
{{- $listens := dict "agent.listen" (dig "agent" "listen" dict $config) "agent.kubernetes_api.listen" $kubernetes -}}
{{- $listens = merge $listens (dict "api.listen" (dig "api" "listen" dict $config) "private_api.listen" (dig "private_api" "listen" dict $config)) -}}
{{- range $name, $listen := $listens -}}
{{- $key := printf "%s.listen_grace_period" $name -}}
{{- $longest = max $longest (include "kas.milliseconds" (list $key (default "5s" $listen.listen_grace_period)) | int64) -}}
{{- end -}}
{{- $key := "agent.kubernetes_api.listen.shutdown_grace_period" -}}
{{- $shutdown := include "kas.milliseconds" (list $key (default "3600s" $kubernetes.shutdown_grace_period)) | int64 -}}
{{- add (ceil (divf (add $longest $shutdown) 1000) | int64) 45 -}}
{{- end -}}
