{{/* Of a monitor: (list ENDPOINT JOB GIVEN). Relabelings that are given come after the job's name. */}}
{{- define "kas.endpoints" -}}
{{- $given := default dict (index . 2) -}}
{{- $relabelings := concat (list (index . 1)) (default list $given.relabelings) -}}
{{- list (mergeOverwrite (deepCopy (index . 0)) (deepCopy $given) (dict "relabelings" $relabelings)) | toYaml -}}
{{- end -}}

{{/* deploy/monitoring/rules.yaml, of which files/rules.yaml is a copy, but for what is left out. */}}
{{- define "kas.ruleGroups" -}}
{{- $without := default list .Values.metrics.prometheusRule.without -}}
{{- $groups := list -}}
{{- $alerts := list -}}
{{- range $group := (.Files.Get "files/rules.yaml" | fromYaml).groups -}}
{{- $rules := list -}}
{{- range $group.rules -}}
{{- $alerts = append $alerts .alert -}}
{{- if not (has .alert $without) }}{{ $rules = append $rules . }}{{ end -}}
{{- end -}}
{{- if $rules }}{{ $groups = append $groups (dict "name" $group.name "rules" $rules) }}{{ end -}}
{{- end -}}
{{- range $without -}}
{{- if not (has . $alerts) -}}
{{- fail (printf "metrics.prometheusRule.without has %q, which is no alert: there are %s" . (join ", " $alerts)) -}}
{{- end -}}
{{- end -}}
{{- toYaml $groups -}}
{{- end -}}
