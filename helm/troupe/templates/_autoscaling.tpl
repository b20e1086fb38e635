{{/* How many workers a pool should have. All defines take (dict "root" $ "role" ROLE "pool" NAME "spec" SPEC). */}}

{{/* Labels of a series that name the pods of this pool; ServiceMonitors bring them. */}}
{{- define "troupe.poolSeries" -}}
namespace="{{ .root.Release.Namespace }}",app_kubernetes_io_instance="{{ .root.Release.Name }}",troupe_pool="{{ .pool }}",app_kubernetes_io_component="{{ .role }}"
{{- end }}

{{/* Labels of the series of the scheduler. */}}
{{- define "troupe.schedulerSeries" -}}
namespace="{{ .root.Release.Namespace }}",app_kubernetes_io_instance="{{ .root.Release.Name }}"
{{- end }}

{{/* Every query is the load as a whole, which KEDA divides by the threshold: so many workers there should be. */}}
{{- define "troupe.query.attention.cache" -}}
sum({{ .root.Values.metrics.prefix }}kv_cache_usage_perc{ {{- include "troupe.poolSeries" . -}} })
{{- end }}

{{- define "troupe.query.attention.waiting" -}}
sum({{ .root.Values.metrics.prefix }}num_requests_waiting{ {{- include "troupe.schedulerSeries" . -}} })
{{- end }}

{{/* As many as there are, one more where that gains enough, one fewer where that one wastes enough. */}}
{{- define "troupe.query.expert" -}}
{{- $auto := .spec.autoscaling -}}
{{- $prefix := .root.Values.metrics.prefix -}}
{{- $series := include "troupe.schedulerSeries" . -}}
count({{ $prefix }}experts_hosted{ {{- include "troupe.poolSeries" . -}} }) + (max({{ $prefix }}{{ $auto.gainMetric }}{ {{- $series -}} }) >= bool {{ $auto.gainThreshold }}) - (max({{ $prefix }}{{ $auto.wasteMetric }}{ {{- $series -}} }) >= bool {{ $auto.wasteThreshold }})
{{- end }}

{{/* (dict … "query" TEXT "threshold" NUMBER). Without an answer there is no number, and none is not zero. */}}
{{- define "troupe.trigger" -}}
- type: prometheus
  metricType: AverageValue
  metadata:
    serverAddress: {{ .root.Values.keda.serverAddress | quote }}
    query: {{ .query | quote }}
    threshold: {{ .threshold | toString | quote }}
    ignoreNullValues: "false"
{{- end }}

{{- define "troupe.scaledObject" -}}
{{- $auto := .spec.autoscaling -}}
{{- $keda := .root.Values.keda -}}
{{- $name := include "troupe.workloadName" . -}}
---
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata:
  {{- include "troupe.metadata" (merge (dict "name" $name) .) | nindent 2 }}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: {{ $name }}}
  minReplicaCount: {{ $auto.minReplicas | int }}
  maxReplicaCount: {{ $auto.maxReplicas | int }}
  pollingInterval: {{ $keda.pollingInterval | int }}
  fallback:
    failureThreshold: {{ $keda.fallbackFailureThreshold | int }}
    replicas: {{ $keda.fallbackReplicas | default $auto.minReplicas | int }}
  advanced:
    horizontalPodAutoscalerConfig:
      name: {{ $name }}
      {{- with $auto.behavior }}
      behavior:
        {{- toYaml . | nindent 8 }}
      {{- end }}
  triggers:
    {{- if $auto.triggers }}
    {{- toYaml $auto.triggers | nindent 4 }}
    {{- else if eq .role "attention" }}
    {{- include "troupe.trigger" (merge (dict "query" (include "troupe.query.attention.cache" .) "threshold" $auto.targetKvCacheUsage) .) | nindent 4 }}
    {{- include "troupe.trigger" (merge (dict "query" (include "troupe.query.attention.waiting" .) "threshold" $auto.targetWaitingRequests) .) | nindent 4 }}
    {{- else }}
    {{- include "troupe.trigger" (merge (dict "query" (include "troupe.query.expert" .) "threshold" 1) .) | nindent 4 }}
    {{- end }}
{{- end }}

{{/* Metrics of a plain HorizontalPodAutoscaler, as JSON. prometheus-adapter serves them. */}}
{{- define "troupe.podMetrics" -}}
{{- $auto := .spec.autoscaling -}}
{{- $prefix := .root.Values.metrics.prefix -}}
{{- if $auto.triggers -}}
{{- $auto.triggers | toJson -}}
{{- else if eq .role "attention" -}}
{{- $usage := dict "type" "AverageValue" "averageValue" (printf "%dm" (mulf $auto.targetKvCacheUsage 1000 | int)) -}}
{{- $waiting := dict "type" "AverageValue" "averageValue" (toString $auto.targetWaitingRequests) -}}
{{- $selector := dict "matchLabels" (dict "app_kubernetes_io_instance" .root.Release.Name) -}}
{{- list
    (dict "type" "Pods" "pods" (dict "metric" (dict "name" (printf "%skv_cache_usage_perc" $prefix)) "target" $usage))
    (dict "type" "External" "external" (dict "metric" (dict "name" (printf "%snum_requests_waiting" $prefix) "selector" $selector) "target" $waiting))
    | toJson -}}
{{- else -}}
{{- $rows := dict "type" "AverageValue" "averageValue" (toString $auto.targetQueueRows) -}}
{{- list (dict "type" "Pods" "pods" (dict "metric" (dict "name" (printf "%sexpert_queue_rows" $prefix)) "target" $rows)) | toJson -}}
{{- end -}}
{{- end }}
