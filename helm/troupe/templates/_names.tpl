{{/* Names, labels and references. "role" is gateway, scheduler, attention or expert; "pool" is empty for the first two. */}}

{{- define "troupe.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end }}

{{/* Short enough for "-attention-" and a pool's name behind it within the 63 letters of a label. */}}
{{- define "troupe.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- $name := include "troupe.name" . -}}
{{- ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end }}

{{/* (dict "root" $ "role" "attention" "pool" "default") */}}
{{- define "troupe.workloadName" -}}
{{- printf "%s-%s" (include "troupe.fullname" .root) .role -}}{{- with .pool }}-{{ . }}{{ end -}}
{{- end }}

{{- define "troupe.selectorLabels" -}}
app.kubernetes.io/name: {{ include "troupe.name" .root }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
{{- with .role }}
app.kubernetes.io/component: {{ . }}
{{- end }}
{{- with .pool }}
troupe-pool: {{ . }}
{{- end }}
{{- end }}

{{- define "troupe.labels" -}}
{{ include "troupe.selectorLabels" . }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
app.kubernetes.io/version: {{ .root.Values.image.tag | default .root.Chart.AppVersion | trunc 63 | quote }}
app.kubernetes.io/part-of: {{ .root.Chart.Name }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
{{- with .root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* The metadata of an object: (dict "root" $ "name" NAME "role" ROLE "pool" POOL "labels" MAP "annotations" MAP), all but root and name optional */}}
{{- define "troupe.metadata" -}}
name: {{ .name }}
namespace: {{ .root.Release.Namespace }}
labels:
  {{- include "troupe.labels" . | nindent 2 }}
  {{- with .labels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with merge (dict) (.annotations | default dict) .root.Values.commonAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "troupe.image" -}}
{{- $image := .Values.image -}}
{{- with $image.registry }}{{ . }}/{{ end -}}
{{- $image.repository -}}
{{- if $image.digest }}@{{ $image.digest }}{{ else }}:{{ $image.tag | default .Chart.AppVersion }}{{ end -}}
{{- end }}

{{- define "troupe.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- .Values.serviceAccount.name | default (include "troupe.fullname" .) -}}
{{- else -}}
{{- .Values.serviceAccount.name | default "default" -}}
{{- end -}}
{{- end }}

{{- define "troupe.clusterSecretName" -}}
{{- .Values.clusterSecret.existingSecret | default (printf "%s-cluster" (include "troupe.fullname" .)) -}}
{{- end }}

{{/* Empty where no key is asked for. */}}
{{- define "troupe.apiKeysName" -}}
{{- if .Values.apiKeys.existingSecret -}}
{{- .Values.apiKeys.existingSecret -}}
{{- else if .Values.apiKeys.keys -}}
{{- printf "%s-api-keys" (include "troupe.fullname" .) -}}
{{- end -}}
{{- end }}

{{- define "troupe.modelClaimName" -}}
{{- $volume := .Values.model.volume -}}
{{- if eq $volume.type "existingClaim" -}}
{{- required "model.volume.existingClaim.name: name the claim" $volume.existingClaim.name -}}
{{- else -}}
{{- printf "%s-model" (include "troupe.fullname" .) -}}
{{- end -}}
{{- end }}

{{- define "troupe.stateClaimName" -}}
{{- .Values.scheduler.persistence.existingClaim | default (printf "%s-scheduler-state" (include "troupe.fullname" .)) -}}
{{- end }}

{{/* How other roles reach the scheduler: by the name of its pod, whose address the headless Service tells before it is ready. */}}
{{- define "troupe.schedulerAddresses" -}}
{{- $name := include "troupe.workloadName" (dict "root" . "role" "scheduler") -}}
{{- $addresses := list -}}
{{- range $ordinal := until (include "troupe.schedulers" . | int) -}}
{{- $addresses = append $addresses (printf "%s-%d.%s:%d" $name $ordinal $name ($.Values.network.port | int)) -}}
{{- end -}}
{{- join "," $addresses -}}
{{- end }}

{{- define "troupe.schedulers" -}}
{{- ternary 2 1 .Values.scheduler.standby.enabled -}}
{{- end }}

{{/* What holds for a workload: pods, then its role, then its pool. (dict "root" $ "role" ROLE "pool" MAP) gives JSON. */}}
{{- define "troupe.spec" -}}
{{- $role := omit (index .root.Values .role) "pools" -}}
{{- mustMergeOverwrite (deepCopy .root.Values.pods) (deepCopy $role) (deepCopy (.pool | default dict)) | toJson -}}
{{- end }}
