{{- define "weir.fullname" -}}
{{- if contains "weir" .Release.Name -}}{{ .Release.Name | trunc 50 | trimSuffix "-" }}{{- else -}}{{ printf "%s-weir" .Release.Name | trunc 50 | trimSuffix "-" }}{{- end -}}
{{- end -}}

{{- define "weir.selector" -}}
app.kubernetes.io/name: weir
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "weir.labels" -}}
{{ include "weir.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "weir.secret" -}}
{{- if .Values.secret.existing -}}
{{ .Values.secret.existing }}
{{- else -}}
{{- if not .Values.secret.create.DATABASE_URL -}}{{ fail "set secret.existing, or secret.create.DATABASE_URL" }}{{- end -}}
{{- if and .Values.redis.enabled (not .Values.secret.create.REDIS_URL) -}}{{ fail "set secret.create.REDIS_URL, or redis.enabled=false" }}{{- end -}}
{{ include "weir.fullname" . }}
{{- end -}}
{{- end -}}
