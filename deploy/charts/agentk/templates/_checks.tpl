{{/* What a schema cannot say in a sentence. */}}
{{- define "agentk.checks" -}}
{{- $config := .Values.config -}}
{{- $address := $config.kasAddress -}}
{{- if not .Values.image.repository -}}
{{- fail "image.repository is missing: where the image agentk is, such as registry.example.com/agentk" -}}
{{- end -}}
{{- if not $address -}}
{{- fail "config.kasAddress is missing, such as wss://kas.example.com/-/kubernetes-agent/" -}}
{{- end -}}
{{- if not (regexMatch "^(wss?|grpcs?)://[^/\\s]+(/\\S*)?$" $address) -}}
{{- fail (printf "config.kasAddress is %q: expected wss://, grpcs://, ws:// or grpc://, then a host" $address) -}}
{{- end -}}
{{- if and $config.token $config.secretName -}}
{{- fail "config.token and config.secretName are both set: give the token or the Secret that has it" -}}
{{- end -}}
{{- if not (or $config.token $config.secretName) -}}
{{- fail "the agent's token is missing: set config.secretName to a Secret that has it, or config.token" -}}
{{- end -}}
{{- if regexMatch "\\s" (default "" $config.token) -}}
{{- fail "config.token has white space in it: give the token alone" -}}
{{- end -}}
{{- if and $config.kasCaCert $config.kasCaCertSecret.name -}}
{{- fail "config.kasCaCert and config.kasCaCertSecret.name are both set: give the certificate or the Secret that has it" -}}
{{- end -}}
{{- if and $config.kasCaCert (contains "PRIVATE KEY-----" $config.kasCaCert) -}}
{{- fail "config.kasCaCert has a private key in it: give the authority's certificate alone" -}}
{{- end -}}
{{- if and $config.kasCaCert (not (contains "-----BEGIN CERTIFICATE-----" $config.kasCaCert)) -}}
{{- fail "config.kasCaCert is no certificate in PEM: it begins with -----BEGIN CERTIFICATE-----" -}}
{{- end -}}
{{- with $config.observability.tls -}}
{{- if and .enabled .secret.create (not (and .cert .key)) -}}
{{- fail "config.observability.tls.secret.create needs config.observability.tls.cert and config.observability.tls.key" -}}
{{- end -}}
{{- if and .enabled (not .secret.create) (not .secret.name) -}}
{{- fail "config.observability.tls.enabled needs a Secret: name one by config.observability.tls.secret.name" -}}
{{- end -}}
{{- end -}}
{{- if ($config.receptive).enabled -}}
{{- fail "config.receptive.enabled is true: this agentk dials kas, and waits for nobody" -}}
{{- end -}}
{{- if eq (default "" .Values.rbac.useExistingRole) "cluster-admin" -}}
{{- fail "rbac.useExistingRole is cluster-admin, which this chart does not bind: name a role of what callers need" -}}
{{- end -}}
{{- if and .Values.rbac.useExistingRole .Values.rbac.namespaces -}}
{{- fail "rbac.useExistingRole and rbac.namespaces are both set: a role for the whole cluster, or named namespaces" -}}
{{- end -}}
{{- $named := list -}}
{{- range .Values.rbac.namespaces -}}
{{- if has .name $named -}}
{{- fail (printf "rbac.namespaces names %s twice: one service account of each namespace" .name) -}}
{{- end -}}
{{- $named = append $named .name -}}
{{- if contains "*" (toJson .rules) -}}
{{- fail (printf "rbac.namespaces: the rules of %s have a wildcard: name what callers need" .name) -}}
{{- end -}}
{{- end -}}
{{- range $key := list "views" "flux" "gitops" -}}
{{- if and (get $.Values.rbac $key).enabled (not $.Values.rbac.create) -}}
{{- fail (printf "rbac.%s.enabled is true, and rbac.create false, with which nothing is bound: leave one out" $key) -}}
{{- end -}}
{{- end -}}
{{- if and .Values.rbac.views.vendors (not .Values.rbac.views.enabled) -}}
{{- fail "rbac.views.vendors needs rbac.views.enabled: Kubernetes' own kinds are shown first" -}}
{{- end -}}
{{- $made := list -}}
{{- range .Values.rbac.namespaces -}}
{{- if .rules }}{{ $made = append $made (printf "%s/%s" .name .serviceAccount) }}{{ end -}}
{{- end -}}
{{- range .Values.rbac.gitops.sources -}}
{{- if eq (default "" .clusterRole) "cluster-admin" -}}
{{- fail (printf "rbac.gitops.sources binds cluster-admin in %s, which this chart never does: admin is all that a namespace has" .namespace) -}}
{{- end -}}
{{- $account := printf "%s/%s" .namespace .serviceAccount -}}
{{- if has $account $made -}}
{{- fail (printf "rbac.gitops.sources names the service account %s, which is there already: each is made once" $account) -}}
{{- end -}}
{{- $made = append $made $account -}}
{{- end -}}
{{- if and (not .Values.serviceAccount.create) (not .Values.serviceAccount.name) -}}
{{- fail "serviceAccount.name is missing: with serviceAccount.create: false, the account that agentk has" -}}
{{- end -}}
{{- with .Values.rbac.impersonation -}}
{{- if or (has "system:masters" .groups) (contains "*" (toJson (list .users .groups))) -}}
{{- fail "rbac.impersonation names system:masters or a wildcard: name the users and groups that occur" -}}
{{- end -}}
{{- range .users -}}
{{- if hasPrefix "system:serviceaccount:" . -}}
{{- fail (printf "rbac.impersonation.users names the service account %s, which RBAC does not count as a user: write %s in impersonation.allowed" . (replace "system:serviceaccount:" "serviceaccount:" .)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $callers := include "agentk.callersMayImpersonate" . | fromJsonArray -}}
{{- range $key, $entries := dict "allowed" (default list .Values.impersonation.allowed) "callers" $callers -}}
{{- if has "group:system:masters" $entries -}}
{{- fail (printf "impersonation.%s names system:masters, which is cluster-admin: name the users and groups that occur" $key) -}}
{{- end -}}
{{- range $entries -}}
{{- if hasPrefix "user:system:serviceaccount:" . -}}
{{- fail (printf "impersonation.%s has %s: write %s" $key . (replace "user:system:serviceaccount:" "serviceaccount:" .)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and (has "any" $callers) (include "agentk.actsAsAny" .) -}}
{{- fail "impersonation.callers is any, and rbac.impersonation lets agentk act as any user or group: every caller that acts as the agent would be cluster-admin. Name users and groups in impersonation.callers, or set rbac.impersonation.enabled: false and bind a role of your own" -}}
{{- end -}}
{{- if and .Values.serviceMonitor.enabled (not (include "agentk.knows" (list . "monitoring.coreos.com/v1" "ServiceMonitor"))) -}}
{{- fail "serviceMonitor.enabled is true, and the cluster knows no ServiceMonitor: install the Prometheus Operator first" -}}
{{- end -}}
{{- end -}}
