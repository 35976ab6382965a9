{{/*
Entries of agentk's flags --may-impersonate and --callers-may-impersonate: user:NAME, group:NAME,
serviceaccount:NAMESPACE:NAME, extra:KEY, uid:UID. agentk refuses every other name, but for those that begin with gitlab:
and come from kas.
*/}}

{{/* impersonation.callers as a list: it may be the word `any` alone. */}}
{{- define "agentk.callersMayImpersonate" -}}
{{- $callers := default list .Values.impersonation.callers -}}
{{- kindIs "string" $callers | ternary (list $callers) $callers | uniq | toJson -}}
{{- end -}}

{{/* Names that the agent's configuration may use: those for which this chart makes roles, then impersonation.allowed. */}}
{{- define "agentk.mayImpersonate" -}}
{{- $entries := list -}}
{{- with .Values.rbac -}}
{{- if .create -}}
{{- if .useExistingRole -}}
{{- else if .namespaces -}}
{{- range .namespaces }}{{ $entries = append $entries (printf "serviceaccount:%s:%s" .name .serviceAccount) }}{{ end -}}
{{- else if .impersonation.enabled -}}
{{- range .impersonation.users }}{{ $entries = append $entries (printf "user:%s" .) }}{{ end -}}
{{- range .impersonation.groups }}{{ $entries = append $entries (printf "group:%s" .) }}{{ end -}}
{{- end -}}
{{- if .gitops.enabled -}}
{{- range .gitops.sources }}{{ $entries = append $entries (printf "serviceaccount:%s:%s" .namespace .serviceAccount) }}{{ end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $entries = concat $entries (default list .Values.impersonation.allowed) -}}
{{- /* kas' own names need no entry */ -}}
{{- $needed := list -}}
{{- range $entries }}{{ if not (regexMatch "^(user|group):gitlab:" .) }}{{ $needed = append $needed . }}{{ end }}{{ end -}}
{{- uniq $needed | toJson -}}
{{- end -}}

{{/* The names of one kind among the entries of `impersonation`, without the kind: (list $ "user"). */}}
{{- define "agentk.listed" -}}
{{- $prefix := printf "%s:" (index . 1) -}}
{{- $names := list -}}
{{- with index . 0 -}}
{{- range concat (default list .Values.impersonation.allowed) (include "agentk.callersMayImpersonate" . | fromJsonArray) -}}
{{- if hasPrefix $prefix . }}{{ $names = append $names (trimPrefix $prefix .) }}{{ end -}}
{{- end -}}
{{- end -}}
{{- uniq $names | toJson -}}
{{- end -}}

{{/* Whether agentk's account may act as any user, or as any group. */}}
{{- define "agentk.actsAsAny" -}}
{{- with .Values.rbac -}}
{{- $named := and .impersonation.users .impersonation.groups -}}
{{- if and .create (not .useExistingRole) (not .namespaces) .impersonation.enabled (not $named) }}yes{{ end -}}
{{- end -}}
{{- end -}}
