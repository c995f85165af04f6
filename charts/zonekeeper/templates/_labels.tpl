{{- define "zonekeeper.name" -}}
{{ printf "%s-operator" .Release.Name | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "zonekeeper.webhook" -}}
{{ include "zonekeeper.name" . | trunc 55 | trimSuffix "-" }}-webhook
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

{{- define "zonekeeper.podSecurity" -}}
runAsNonRoot: true
{{- with .Values.user }}
runAsUser: {{ . | int64 }}
runAsGroup: {{ . | int64 }}
{{- end }}
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "zonekeeper.containerSecurity" -}}
allowPrivilegeEscalation: false
capabilities:
  drop: [ALL]
readOnlyRootFilesystem: true
{{- end }}

{{- define "zonekeeper.leaseRules" -}}
- apiGroups: [coordination.k8s.io]
  resources: [leases]                      # which process acts
  verbs: [get, create, patch]
{{- end }}

{{- define "zonekeeper.rules" -}}
- apiGroups: [zonekeeper.io]
  resources: [bookieclusters]
  verbs: [get, list, watch, patch]        # patch: its finalizer
- apiGroups: [zonekeeper.io]
  resources: [bookieclusters/status]
  verbs: [patch]
- apiGroups: [apps]
  resources: [deployments, statefulsets]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [apps]
  resources: [controllerrevisions]         # the last legal spec
  verbs: [list, create, patch, delete]
- apiGroups: [policy]
  resources: [poddisruptionbudgets]       # delete: a zone is opened to a drain, and closed again
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [networking.k8s.io]
  resources: [networkpolicies]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [""]
  resources: [secrets]                    # certificates, by their names: none is listed, watched or deleted
  verbs: [get, create, patch]
- apiGroups: [cert-manager.io]
  resources: [certificates]               # only with spec.tls.mode: Issuer
  verbs: [list, create, patch]
- apiGroups: [""]
  resources: [services, serviceaccounts]
  verbs: [get, list, watch, create, patch]
- apiGroups: [""]
  resources: [pods]                       # delete: the roll; create, patch: the pod that asks an image for its formats
  verbs: [list, create, patch, delete]
- apiGroups: [""]
  resources: [persistentvolumeclaims]     # patch: whose data it is, its size; delete: only under onDelete: Delete
  verbs: [list, patch, delete]
- apiGroups: [""]
  resources: [events]                     # get, patch: one that is there is counted up
  verbs: [get, create, patch]
{{- end }}
