{{- define "kas.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* Kubernetes lets no selector change: no version in it, ever. */}}
{{- define "kas.selectorLabels" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "kas.labels" -}}
{{ include "kas.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- with .Values.additionalLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Of any object: (dict "name" NAME "namespace" NAMESPACE "root" $), without a namespace for those that have none. */}}
{{- define "kas.metadata" -}}
name: {{ .name }}
{{- with .namespace }}
namespace: {{ . }}
{{- end }}
labels:
  {{- include "kas.labels" .root | nindent 2 }}
{{- end -}}

{{- define "kas.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "kas.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "kas.subject" -}}
- { kind: ServiceAccount, name: {{ include "kas.serviceAccountName" . }}, namespace: {{ .Release.Namespace }} }
{{- end -}}

{{- define "kas.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{- printf "%s@%s" .repository .digest -}}
{{- else -}}
{{- printf "%s:%s" .repository (default $.Chart.AppVersion .tag) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Whether the cluster has a kind: (list $ "monitoring.coreos.com/v1" "ServiceMonitor"). Who renders without a cluster may
name versions alone. */}}
{{- define "kas.knows" -}}
{{- $versions := (index . 0).Capabilities.APIVersions -}}
{{- $version := index . 1 -}}
{{- $kinds := list -}}
{{- range $versions -}}
{{- if hasPrefix (printf "%s/" $version) . }}{{ $kinds = append $kinds . }}{{ end -}}
{{- end -}}
{{- if or (has (printf "%s/%s" $version (index . 2)) $kinds) (and ($versions.Has $version) (not $kinds)) }}yes{{ end -}}
{{- end -}}
