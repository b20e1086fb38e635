{{/* Names, labels and references. "role" is gateway, scheduler, attention or expert; "pool" is empty for the first two. */}}

{{- define "troupe.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end }}

{{/* Short enough for "-attention-" and a pool's name behind it within the 63 letters of a label. */}}
{{- define "troupe.fullname" -}}
{{- $name := .Values.fullnameOverride -}}
{{- if not $name -}}
{{- $chart := include "troupe.name" . -}}
{{- $name = ternary .Release.Name (printf "%s-%s" .Release.Name $chart) (contains $chart .Release.Name) | replace "." "-" -}}
{{- end -}}
{{- if not (regexMatch "^[a-z]" $name) -}}
{{- fail (printf "%s: names of Services begin with a letter; set fullnameOverride" $name) -}}
{{- end -}}
{{- $name | trunc 40 | trimSuffix "-" -}}
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

{{/* The chart's own, which win, and those that are wished for: (dict … "labels" MAP) */}}
{{- define "troupe.labels" -}}
{{- $own := include "troupe.selectorLabels" . | fromYaml -}}
{{- $_ := set $own "helm.sh/chart" (printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_") -}}
{{- $version := .root.Values.image.tag | default .root.Chart.AppVersion | trunc 63 -}}
{{- $_ := set $own "app.kubernetes.io/version" (regexReplaceAll "[^A-Za-z0-9]+$" $version "") -}}
{{- $_ := set $own "app.kubernetes.io/part-of" .root.Chart.Name -}}
{{- $_ := set $own "app.kubernetes.io/managed-by" .root.Release.Service -}}
{{- toYaml (merge $own (.labels | default dict) .root.Values.commonLabels) -}}
{{- end }}

{{/* The metadata of an object: (dict "root" $ "name" NAME "role" ROLE "pool" POOL "labels" MAP "annotations" MAP), all but root and name optional */}}
{{- define "troupe.metadata" -}}
name: {{ .name }}
namespace: {{ .root.Release.Namespace }}
labels:
  {{- include "troupe.labels" . | nindent 2 }}
{{- with merge (dict) (.annotations | default dict) .root.Values.commonAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "troupe.image" -}}
{{- $image := .Values.image -}}
{{- with $image.registry | default (.Values.global).imageRegistry }}{{ . }}/{{ end -}}
{{- $image.repository -}}
{{- if $image.digest }}@{{ $image.digest }}{{ else }}:{{ $image.tag | default .Chart.AppVersion }}{{ end -}}
{{- end }}

{{/* Those of the chart, and those of all charts beside it, which may be names alone. */}}
{{- define "troupe.pullSecrets" -}}
{{- $secrets := .Values.imagePullSecrets -}}
{{- range (.Values.global).imagePullSecrets -}}
{{- $secrets = append $secrets (kindIs "string" . | ternary (dict "name" .) .) -}}
{{- end -}}
{{- toYaml $secrets -}}
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

{{- define "troupe.stateClaimName" -}}
{{- .Values.scheduler.persistence.existingClaim | default (printf "%s-scheduler-state" (include "troupe.fullname" .)) -}}
{{- end }}

{{/* How other roles reach the scheduler: by the name of the Service, or, of two, by the names of their pods. */}}
{{- define "troupe.schedulerAddresses" -}}
{{- $name := include "troupe.workloadName" (dict "root" . "role" "scheduler") -}}
{{- $port := .Values.network.port | int -}}
{{- if .Values.scheduler.standby.enabled -}}
{{- printf "%s-0.%s:%d,%s-1.%s:%d" $name $name $port $name $name $port -}}
{{- else -}}
{{- printf "%s:%d" $name $port -}}
{{- end -}}
{{- end }}

{{/* Two schedulers are a StatefulSet, everything else is a Deployment. */}}
{{- define "troupe.isStateful" -}}
{{- if and (eq .role "scheduler") .root.Values.scheduler.standby.enabled }}yes{{ end -}}
{{- end }}

{{/* What holds for a workload: pods, then its role, then its pool. (dict "root" $ "role" ROLE "pool" MAP) gives JSON. */}}
{{- define "troupe.spec" -}}
{{- $role := omit (index .root.Values .role) "pools" -}}
{{- mustMergeOverwrite (deepCopy .root.Values.pods) (deepCopy $role) (deepCopy (.pool | default dict)) | toJson -}}
{{- end }}
