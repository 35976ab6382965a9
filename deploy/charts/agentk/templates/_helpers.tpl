{{- define "agentk.fullname" -}}
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
{{- define "agentk.selectorLabels" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "agentk.labels" -}}
{{ include "agentk.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- with .Values.additionalLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Of any object: (dict "name" NAME "namespace" NAMESPACE "root" $), without a namespace for those that have none. */}}
{{- define "agentk.metadata" -}}
name: {{ .name }}
{{- with .namespace }}
namespace: {{ . }}
{{- end }}
labels:
  {{- include "agentk.labels" .root | nindent 2 }}
{{- end -}}

{{- define "agentk.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "agentk.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "agentk.subject" -}}
- { kind: ServiceAccount, name: {{ include "agentk.serviceAccountName" . }}, namespace: {{ .Release.Namespace }} }
{{- end -}}

{{/* Of ClusterRoles, whose names are those of the whole cluster. */}}
{{- define "agentk.clusterName" -}}
{{- $fullname := include "agentk.fullname" . -}}
{{- eq $fullname .Release.Namespace | ternary $fullname (printf "%s-%s" .Release.Namespace $fullname) -}}
{{- end -}}

{{- define "agentk.tokenSecret" -}}
{{- default (printf "%s-token" (include "agentk.fullname" .)) .Values.config.secretName -}}
{{- end -}}

{{- define "agentk.observabilitySecret" -}}
{{- default (printf "%s-observability" (include "agentk.fullname" .)) .Values.config.observability.tls.secret.name -}}
{{- end -}}

{{- define "agentk.image" -}}
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
{{- define "agentk.knows" -}}
{{- $versions := (index . 0).Capabilities.APIVersions -}}
{{- $version := index . 1 -}}
{{- $kinds := list -}}
{{- range $versions -}}
{{- if hasPrefix (printf "%s/" $version) . }}{{ $kinds = append $kinds . }}{{ end -}}
{{- end -}}
{{- if or (has (printf "%s/%s" $version (index . 2)) $kinds) (and ($versions.Has $version) (not $kinds)) }}yes{{ end -}}
{{- end -}}

{{/* Whether changes by hand of what Git keeps give a warning: admission policies came with Kubernetes 1.30. */}}
{{- define "agentk.warns" -}}
{{- $isServed := include "agentk.knows" (list . "admissionregistration.k8s.io/v1" "ValidatingAdmissionPolicy") -}}
{{- $isNewEnough := semverCompare ">=1.30-0" .Capabilities.KubeVersion.Version -}}
{{- with .Values.rbac -}}
{{- if and .create .gitops.enabled .gitops.warn $isNewEnough $isServed }}yes{{ end -}}
{{- end -}}
{{- end -}}
