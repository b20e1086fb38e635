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
  {{- end }}
  minReadySeconds: {{ .spec.minReadySeconds | int }}
  revisionHistoryLimit: {{ .spec.revisionHistoryLimit | int }}
  strategy:
    {{- toYaml .spec.strategy | nindent 4 }}
  selector:
    matchLabels:
      {{- include "troupe.selectorLabels" . | nindent 6 }}
  template:
    {{- include "troupe.podTemplate" . | nindent 4 }}
{{- end }}

{{- define "troupe.pdb" -}}
{{- if .spec.pdb.enabled }}
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
  {{- with .spec.autoscaling.behavior }}
  behavior:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}
