{{- define "zonekeeper.name" -}}
{{ printf "%s-operator" .Release.Name | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "zonekeeper.labels" -}}
app.kubernetes.io/name: zonekeeper-operator
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "zonekeeper.image" -}}
{{- $image := .Values.image -}}
{{ $image.repository }}{{ if $image.digest }}@{{ $image.digest }}{{ else }}:{{ $image.tag | default .Chart.AppVersion }}{{ end }}
{{- end }}

{{- define "zonekeeper.rules" -}}
- apiGroups: [zonekeeper.io]
  resources: [bookieclusters]
  verbs: [get, list, watch, patch]        # patch: its finalizer
- apiGroups: [zonekeeper.io]
  resources: [bookieclusters/status]
  verbs: [patch]
- apiGroups: [apps]
  resources: [statefulsets]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [get, list, watch, create, patch]
- apiGroups: [""]
  resources: [services, serviceaccounts]
  verbs: [get, list, watch, create, patch]
- apiGroups: [""]
  resources: [pods]
  verbs: [list]
- apiGroups: [""]
  resources: [persistentvolumeclaims]     # patch: whose data it is; delete: only under onDelete: Delete
  verbs: [list, patch, delete]
- apiGroups: [""]
  resources: [events]
  verbs: [create]
{{- end }}
