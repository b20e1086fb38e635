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

{{/* The planner's own number: absolute, so neither pods that a rollout adds nor pods that are not scraped are part of it. Of
     two schedulers the active one tells it. */}}
{{- define "troupe.query.expert" -}}
max({{ .root.Values.metrics.prefix }}placement_wanted_workers{ {{- include "troupe.schedulerSeries" . -}} })
{{- end }}

{{/* Thousandths of wanted workers for each one of this pool: a pool has the share that its size has in the sizes of all,
     that of an autoscaled one being its maxReplicas. Rounded up, so that no rounding asks for one more. */}}
{{- define "troupe.wantedForEach" -}}
{{- $all := 0 -}}
{{- $own := 0 -}}
{{- range .root.Values.expert.pools -}}
{{- $spec := include "troupe.spec" (dict "root" $.root "role" "expert" "pool" .) | fromJson -}}
{{- $size := ternary $spec.autoscaling.maxReplicas ($spec.replicas | default 0) $spec.autoscaling.enabled | int -}}
{{- $all = add $all $size -}}
{{- if eq .name $.pool -}}{{- $own = $size -}}{{- end -}}
{{- end -}}
{{- div (add (mul $all 1000) (sub $own 1)) $own -}}
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
  {{- /* No fallback: without an answer the HorizontalPodAutoscaler keeps the number that there is. */}}
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
    {{- include "troupe.trigger" (merge (dict "query" (include "troupe.query.expert" .) "threshold" (divf (include "troupe.wantedForEach" . | int) 1000)) .) | nindent 4 }}
    {{- end }}
{{- end }}

{{/* Metrics of a plain HorizontalPodAutoscaler, as JSON. prometheus-adapter serves them; names of its API have no colon. */}}
{{- define "troupe.podMetrics" -}}
{{- $auto := .spec.autoscaling -}}
{{- $prefix := .root.Values.metrics.prefix | replace ":" "_" -}}
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
{{- $selector := dict "matchLabels" (dict "namespace" .root.Release.Namespace "app_kubernetes_io_instance" .root.Release.Name) -}}
{{- $target := dict "type" "AverageValue" "averageValue" (printf "%sm" (include "troupe.wantedForEach" .)) -}}
{{- list (dict "type" "External" "external" (dict "metric" (dict "name" (printf "%splacement_wanted_workers" $prefix) "selector" $selector) "target" $target)) | toJson -}}
{{- end -}}
{{- end }}
