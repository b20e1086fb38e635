{{/* Command lines. Each flag here is one of the program's --help; tests/helm compares. */}}

{{/* (list "--flag" value): an item of args, or nothing where there is no value. Every number of a values file is a float;
     a whole one is written without an exponent. on and off are yes and no to YAML. */}}
{{- define "troupe.flag" -}}
{{- $value := index . 1 -}}
{{- if and (kindIs "float64" $value) (eq $value (floor $value)) -}}{{- $value = int64 $value -}}{{- end -}}
{{- if kindIs "bool" $value -}}{{- $value = ternary "on" "off" $value -}}{{- end -}}
{{- $text := ternary "" (toString $value) (kindIs "invalid" $value) -}}
{{- if $text }}
- {{ printf "%s=%s" (index . 0) $text | quote }}
{{- end -}}
{{- end }}

{{/* A flag that is given, or not. */}}
{{- define "troupe.switch" -}}
{{- if index . 1 }}
- {{ index . 0 | quote }}
{{- end -}}
{{- end }}

{{- define "troupe.podAddress" -}}
{{- ternary "[$(POD_IP)]" "$(POD_IP)" (eq .Values.network.ipFamily "IPv6") -}}
{{- end }}

{{- define "troupe.anyAddress" -}}
{{- ternary "::" "0.0.0.0" (or .Values.network.dualStack (eq .Values.network.ipFamily "IPv6")) -}}
{{- end }}

{{/* How a process meets the others. */}}
{{- define "troupe.clusterFlags" -}}
{{- $network := .Values.network -}}
{{- include "troupe.flag" (list "--listen" (printf "%s:%d" (include "troupe.podAddress" .) ($network.port | int))) -}}
{{- include "troupe.flag" (list "--name" "$(POD_NAME)") -}}
{{- include "troupe.flag" (list "--secret-file" "/etc/troupe/cluster/secret") -}}
{{- include "troupe.flag" (list "--data-ports" (printf "%d-%d" ($network.dataPortFirst | int) ($network.dataPortLast | int))) -}}
{{- include "troupe.flag" (list "--net-devices" $network.netDevices) -}}
{{- include "troupe.flag" (list "--metrics-prefix" .Values.metrics.prefix) -}}
{{- end }}

{{- define "troupe.metricsFlags" -}}
{{- include "troupe.flag" (list "--metrics-host" (include "troupe.anyAddress" .)) -}}
{{- include "troupe.flag" (list "--metrics-port" .Values.metrics.port) -}}
{{- end }}

{{- define "troupe.traceFlags" -}}
{{- $tracing := .Values.tracing -}}
{{- if $tracing.enabled -}}
{{- include "troupe.flag" (list "--trace" $tracing.mountPath) -}}
{{- include "troupe.flag" (list "--trace-sample" $tracing.sample) -}}
{{- include "troupe.flag" (list "--trace-max-bytes" $tracing.maxBytes) -}}
{{- end -}}
{{- end }}

{{/* (dict "spec" SPEC) */}}
{{- define "troupe.logFlags" -}}
{{- include "troupe.flag" (list "--log-level" .spec.logLevel) -}}
{{- include "troupe.flag" (list "--log-format" .spec.logFormat) -}}
{{- end }}

{{/* What the model is, the same for all who read it. */}}
{{- define "troupe.modelFlags" -}}
{{- $config := .Values.model.config -}}
{{- include "troupe.flag" (list "--scheduler" (include "troupe.schedulerAddresses" .)) -}}
{{- include "troupe.flag" (list "--served-model-name" (include "troupe.servedName" .)) -}}
{{- include "troupe.flag" (list "--dtype" $config.dtype) -}}
{{- include "troupe.flag" (list "--expert-quant" $config.expertQuant) -}}
{{- include "troupe.flag" (list "--int4-group" $config.int4Group) -}}
{{- include "troupe.flag" (list "--dense-quant" $config.denseQuant) -}}
{{- include "troupe.flag" (list "--activation-quant" $config.activationQuant) -}}
{{- include "troupe.flag" (list "--kv-cache-dtype" $config.kvCacheDtype) -}}
{{- include "troupe.flag" (list "--weight-coding" $config.weightCoding) -}}
{{- include "troupe.flag" (list "--max-model-len" $config.maxModelLen) -}}
{{- end }}

{{/* (dict "root" $ "spec" SPEC) */}}
{{- define "troupe.workerFlags" -}}
{{- $config := .spec.config -}}
{{- if ne .root.Values.weightsCache.type "none" -}}
{{- include "troupe.flag" (list "--weights-cache" .root.Values.weightsCache.mountPath) -}}
{{- end -}}
{{- include "troupe.flag" (list "--weights-memory" .root.Values.model.config.weightsMemory) -}}
{{- include "troupe.flag" (list "--device" $config.device) -}}
{{- include "troupe.flag" (list "--threads" $config.threads) -}}
{{- include "troupe.flag" (list "--cores" $config.cores) -}}
{{- include "troupe.flag" (list "--cpu-isa" $config.cpuIsa) -}}
{{- include "troupe.flag" (list "--kernel-plan" $config.kernelPlan) -}}
{{- include "troupe.flag" (list "--drain-timeout" $config.drainTimeout) -}}
{{- end }}

{{- define "troupe.args.gateway" -}}
{{- $config := .spec.config -}}
- {{ include "troupe.modelDir" .root | quote }}
{{- include "troupe.modelFlags" .root -}}
{{- include "troupe.flag" (list "--management-host" (include "troupe.anyAddress" .root)) -}}
{{- include "troupe.flag" (list "--management-port" .root.Values.metrics.port) -}}
{{- include "troupe.clusterFlags" .root -}}
{{- include "troupe.traceFlags" .root -}}
{{- include "troupe.logFlags" . -}}
{{- include "troupe.flag" (list "--host" (include "troupe.anyAddress" .root)) -}}
{{- include "troupe.flag" (list "--port" .spec.port) -}}
{{- if include "troupe.apiKeysName" .root -}}
{{- include "troupe.flag" (list "--api-key-file" "/etc/troupe/api-keys/keys") -}}
{{- include "troupe.flag" (list "--key-limits" "/etc/troupe/key-limits/limits.json") -}}
{{- end -}}
{{- if .root.Values.operatorKeys.existingSecret -}}
{{- include "troupe.flag" (list "--operator-key-file" "/etc/troupe/operator-keys/keys") -}}
{{- end -}}
{{- if .spec.tls.existingSecret -}}
{{- include "troupe.flag" (list "--tls-cert-file" "/etc/troupe/tls/tls.crt") -}}
{{- include "troupe.flag" (list "--tls-key-file" "/etc/troupe/tls/tls.key") -}}
{{- end -}}
{{- include "troupe.flag" (list "--reload-interval" $config.reloadInterval) -}}
{{- if .spec.chatTemplate -}}
{{- include "troupe.flag" (list "--chat-template" "/etc/troupe/chat-template/chat_template.jinja") -}}
{{- end -}}
{{- include "troupe.flag" (list "--lame-duck" $config.lameDuck) -}}
{{- include "troupe.flag" (list "--drain-timeout" $config.drainTimeout) -}}
{{- include "troupe.flag" (list "--max-connections" $config.maxConnections) -}}
{{- include "troupe.flag" (list "--max-connections-per-peer" $config.maxConnectionsPerPeer) -}}
{{- range $config.trustedProxies -}}
{{- include "troupe.flag" (list "--trusted-proxies" .) -}}
{{- end -}}
{{- range $config.allowedHosts -}}
{{- include "troupe.flag" (list "--allowed-hosts" .) -}}
{{- end -}}
{{- include "troupe.flag" (list "--sse-ping-interval" $config.ssePingInterval) -}}
{{- include "troupe.flag" (list "--access-log" $config.accessLog) -}}
{{- include "troupe.flag" (list "--otlp-endpoint" .root.Values.tracing.otlpEndpoint) -}}
{{- include "troupe.flag" (list "--template-processes" $config.templateProcesses) -}}
{{- range $config.allowedOrigins -}}
{{- include "troupe.flag" (list "--allowed-origins" .) -}}
{{- end -}}
{{- include "troupe.switch" (list "--trust-request-chat-template" $config.trustRequestChatTemplate) -}}
{{- end }}

{{- define "troupe.args.scheduler" -}}
{{- $config := .spec.config -}}
- {{ printf "--state-dir=%s" "/var/lib/troupe" | quote }}
{{- include "troupe.flag" (list "--replicas" $config.replicas) -}}
{{- include "troupe.flag" (list "--max-queued-bytes" $config.maxQueuedBytes) -}}
{{- include "troupe.flag" (list "--max-num-queued-reqs" $config.maxNumQueuedReqs) -}}
{{- include "troupe.flag" (list "--max-queue-wait" $config.maxQueueWait) -}}
{{- include "troupe.flag" (list "--admission-quantile" $config.admissionQuantile) -}}
{{- include "troupe.switch" (list "--allow-inexact" $config.allowInexact) -}}
{{- include "troupe.flag" (list "--history" $config.history) -}}
{{- include "troupe.flag" (list "--planner-utilization" $config.plannerUtilization) -}}
{{- include "troupe.flag" (list "--planner" $config.planner) -}}
{{- include "troupe.flag" (list "--planner-imbalance" $config.plannerImbalance) -}}
{{- include "troupe.flag" (list "--planner-spare" $config.plannerSpare) -}}
{{- include "troupe.flag" (list "--served-model-name" (include "troupe.servedName" .root)) -}}
{{- include "troupe.clusterFlags" .root -}}
{{- include "troupe.traceFlags" .root -}}
{{- include "troupe.flag" (list "--reload-interval" .root.Values.clusterSecret.reloadInterval) -}}
{{- include "troupe.logFlags" . -}}
{{- include "troupe.metricsFlags" .root -}}
{{- include "troupe.switch" (list "--standby" .spec.standby.enabled) -}}
{{- end }}

{{- define "troupe.args.attention" -}}
{{- $config := .spec.config -}}
- {{ include "troupe.modelDir" .root | quote }}
{{- include "troupe.modelFlags" .root -}}
{{- include "troupe.workerFlags" . -}}
{{- include "troupe.flag" (list "--max-num-seqs" $config.maxNumSeqs) -}}
{{- include "troupe.flag" (list "--max-num-batched-tokens" $config.maxNumBatchedTokens) -}}
{{- include "troupe.flag" (list "--micro-batches" $config.microBatches) -}}
{{- include "troupe.flag" (list "--kv-cache-memory" $config.kvCacheMemory) -}}
{{- include "troupe.flag" (list "--gpu-steps" $config.gpuSteps) -}}
{{- include "troupe.clusterFlags" .root -}}
{{- include "troupe.traceFlags" .root -}}
{{- include "troupe.flag" (list "--reload-interval" .root.Values.clusterSecret.reloadInterval) -}}
{{- include "troupe.logFlags" . -}}
{{- include "troupe.metricsFlags" .root -}}
{{- end }}

{{- define "troupe.args.expert" -}}
{{- $config := .spec.config -}}
- {{ include "troupe.modelDir" .root | quote }}
{{- include "troupe.modelFlags" .root -}}
{{- include "troupe.workerFlags" . -}}
{{- include "troupe.flag" (list "--expert-memory" $config.expertMemory) -}}
{{- include "troupe.flag" (list "--gpu-expert-memory" $config.gpuExpertMemory) -}}
{{- include "troupe.flag" (list "--expert-linger-us" $config.expertLingerUs) -}}
{{- include "troupe.flag" (list "--weights-from" $config.weightsFrom) -}}
{{- if .spec.topologyField -}}
{{- include "troupe.flag" (list "--topology" "$(TOPOLOGY)") -}}
{{- end -}}
{{- include "troupe.clusterFlags" .root -}}
{{- include "troupe.traceFlags" .root -}}
{{- include "troupe.flag" (list "--reload-interval" .root.Values.clusterSecret.reloadInterval) -}}
{{- include "troupe.logFlags" . -}}
{{- include "troupe.metricsFlags" .root -}}
{{- end }}

{{/* For how many the first placement waits: the fewest that the pools have, unless a value says. */}}
{{- define "troupe.expertWorkers" -}}
{{- $sum := 0 -}}
{{- range .Values.expert.pools -}}
{{- $spec := include "troupe.spec" (dict "root" $ "role" "expert" "pool" .) | fromJson -}}
{{- $sum = add $sum (ternary $spec.autoscaling.minReplicas ($spec.replicas | default 0) $spec.autoscaling.enabled | int) -}}
{{- end -}}
{{- .Values.scheduler.config.expertWorkers | default (max 1 $sum) | int -}}
{{- end }}
