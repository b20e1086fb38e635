{{/* A Deployment, and what belongs to it: (dict "root" $ "role" ROLE "pool" NAME "spec" SPEC). */}}
{{- define "troupe.deployment" -}}
{{- $name := include "troupe.workloadName" . -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  {{- include "troupe.metadata" (merge (dict "name" $name "annotations" .spec.annotations) .) | nindent 2 }}
spec:
  {{- if not .spec.autoscaling.enabled }}
  replicas: {{ .spec.replicas | int }}
  {{- else }}
  {{- /* The number that there is: a member that vanishes from a manifest would be reset to 1. */}}
  {{- with lookup "apps/v1" "Deployment" .root.Release.Namespace $name }}
  replicas: {{ .spec.replicas | int }}
  {{- end }}
  {{- end }}
  minReadySeconds: {{ .spec.minReadySeconds | int }}
  progressDeadlineSeconds: {{ .spec.progressDeadlineSeconds | int }}
  revisionHistoryLimit: {{ .spec.revisionHistoryLimit | int }}
  strategy:
    {{- /* Recreate has no rollingUpdate, which the values of pods would bring along. */}}
    {{- ternary (omit .spec.strategy "rollingUpdate") .spec.strategy (eq .spec.strategy.type "Recreate") | toYaml | nindent 4 }}
  selector:
    matchLabels:
      {{- include "troupe.selectorLabels" . | nindent 6 }}
  template:
    {{- include "troupe.podTemplate" . | nindent 4 }}
{{- end }}

{{/* Not of a lone scheduler: a budget for one pod is without effect, or stops every drain of its node. */}}
{{- define "troupe.pdb" -}}
{{- if and .spec.pdb.enabled (or (ne .role "scheduler") (include "troupe.isStateful" .)) }}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  {{- include "troupe.metadata" (merge (dict "name" (include "troupe.workloadName" .)) .) | nindent 2 }}
spec:
  {{- if not (kindIs "invalid" .spec.pdb.minAvailable) }}
  minAvailable: {{ .spec.pdb.minAvailable }}
  {{- else }}
  maxUnavailable: {{ .spec.pdb.maxUnavailable }}
  {{- end }}
  {{- with .spec.pdb.unhealthyPodEvictionPolicy }}
  unhealthyPodEvictionPolicy: {{ . }}
  {{- end }}
  selector:
    matchLabels:
      {{- include "troupe.selectorLabels" . | nindent 6 }}
{{- end }}
{{- end }}

{{/* (dict … "metrics" LIST): a HorizontalPodAutoscaler of the workload */}}
{{- define "troupe.hpa" -}}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata:
  {{- include "troupe.metadata" (merge (dict "name" (include "troupe.workloadName" .)) .) | nindent 2 }}
spec:
  scaleTargetRef:
    apiVersion: apps/v1
    kind: Deployment
    name: {{ include "troupe.workloadName" . }}
  minReplicas: {{ .spec.autoscaling.minReplicas | int }}
  maxReplicas: {{ .spec.autoscaling.maxReplicas | int }}
  metrics:
    {{- toYaml .metrics | nindent 4 }}
  {{- $behavior := .spec.autoscaling.behavior }}
  {{- if and (eq .role "expert") (semverCompare ">=1.35-0" .root.Capabilities.KubeVersion.Version) }}
  {{- /* An absolute number leaves nothing to tolerate; within a tolerance surge pods would be taken for wanted ones. */}}
  {{- $behavior = merge (deepCopy $behavior) (dict "scaleUp" (dict "tolerance" "0") "scaleDown" (dict "tolerance" "0")) }}
  {{- end }}
  {{- with $behavior }}
  behavior:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}
