{{/* The pod of a workload. All defines take (dict "root" $ "role" ROLE "pool" NAME "spec" SPEC). */}}

{{- define "troupe.readsModel" -}}
{{- if ne .role "scheduler" }}yes{{ end -}}
{{- end }}

{{- define "troupe.cachesWeights" -}}
{{- if and (has .role (list "attention" "expert")) (ne .root.Values.weightsCache.type "none") }}yes{{ end -}}
{{- end }}

{{/* Seconds that a pod has to end: what its process may take by its flags, and a margin. A process ends 10 s behind its
     draining in any case; a scheduler drains nothing, and ends within 20 s. */}}
{{- define "troupe.gracePeriod" -}}
{{- $spec := .spec -}}
{{- $drain := ternary 30 (add ($spec.config.lameDuck | default 0 | int) ($spec.config.drainTimeout | int)) (eq .role "scheduler") -}}
{{- $spec.terminationGracePeriodSeconds | default (add ($spec.preStopSeconds | int) $drain 15) | int -}}
{{- end }}

{{- define "troupe.podTemplate" -}}
{{- $root := .root -}}
{{- $spec := .spec -}}
{{- $values := $root.Values -}}
metadata:
  labels:
    {{- /* Nothing that changes with the chart alone: it would replace every pod. */}}
    {{- toYaml (merge (include "troupe.selectorLabels" . | fromYaml) $spec.podLabels $values.commonLabels) | nindent 4 }}
  {{- $annotations := dict -}}
  {{- if and (eq .role "gateway") $spec.chatTemplate }}
  {{- $_ := set $annotations "checksum/chat-template" ($spec.chatTemplate | sha256sum) }}
  {{- end }}
  {{- with merge $annotations $spec.podAnnotations $values.commonAnnotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  serviceAccountName: {{ include "troupe.serviceAccountName" $root }}
  automountServiceAccountToken: false
  # Variables of Services would be named like flags.
  enableServiceLinks: false
  terminationGracePeriodSeconds: {{ include "troupe.gracePeriod" . }}
  {{- with include "troupe.pullSecrets" $root | fromYamlArray }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $spec.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  {{- with $spec.runtimeClassName }}
  runtimeClassName: {{ . }}
  {{- end }}
  {{- with $spec.schedulerName }}
  schedulerName: {{ . }}
  {{- end }}
  {{- if $spec.hostNetwork }}
  hostNetwork: true
  {{- end }}
  {{- with $spec.dnsPolicy | default (ternary "ClusterFirstWithHostNet" "" $spec.hostNetwork) }}
  dnsPolicy: {{ . }}
  {{- end }}
  {{- with $spec.dnsConfig }}
  dnsConfig:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $spec.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with include "troupe.tolerations" . | fromYamlArray }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with include "troupe.affinity" . | fromYaml }}
  affinity:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $spec.topologySpreadConstraints }}
  topologySpreadConstraints:
    {{- range . }}
    {{- $own := dict "labelSelector" (dict "matchLabels" (include "troupe.selectorLabels" $ | fromYaml)) }}
    - {{- merge (deepCopy .) $own | toYaml | nindent 6 }}
    {{- end }}
  {{- end }}
  securityContext:
    {{- toYaml $spec.podSecurityContext | nindent 4 }}
  {{- with include "troupe.initContainers" . | fromYamlArray }}
  initContainers:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  containers:
    - name: {{ .role }}
      image: {{ include "troupe.image" $root | quote }}
      imagePullPolicy: {{ $values.image.pullPolicy }}
      command: [{{ printf "troupe-%s" .role }}]
      args:
        {{- include (printf "troupe.args.%s" .role) . | nindent 8 }}
        {{- range $spec.extraArgs }}
        - {{ . | quote }}
        {{- end }}
      env:
        - name: POD_NAME
          valueFrom: {fieldRef: {fieldPath: metadata.name}}
        - name: POD_IP
          valueFrom: {fieldRef: {fieldPath: status.podIP}}
        {{- if eq .role "scheduler" }}
        {{- /* Read at a start; as a flag it would replace the scheduler's pod whenever a pool is resized. */}}
        - name: TROUPE_EXPERT_WORKERS
          valueFrom: {configMapKeyRef: {name: {{ include "troupe.workloadName" . }}, key: expert-workers}}
        {{- end }}
        {{- if eq .role "expert" }}
        {{- with $spec.topologyField }}
        - name: TOPOLOGY
          valueFrom: {fieldRef: {fieldPath: {{ . | quote }}}}
        {{- end }}
        {{- end }}
        {{- with $spec.env }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- with $spec.envFrom }}
      envFrom:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      ports:
        - {name: transport, containerPort: {{ $values.network.port | int }}}
        {{- if eq .role "gateway" }}
        - {name: http, containerPort: {{ $spec.port | int }}}
        {{- end }}
        - {name: metrics, containerPort: {{ $values.metrics.port | int }}}
      startupProbe:
        httpGet: {path: /health, port: metrics}
        {{- toYaml $spec.startupProbe | nindent 8 }}
      livenessProbe:
        httpGet: {path: /health, port: metrics}
        {{- toYaml $spec.livenessProbe | nindent 8 }}
      readinessProbe:
        {{- /* A standby is not ready until it takes over, and must not hold up the replacement of the other one. */}}
        httpGet: {path: {{ ternary "/health" "/ready" (eq .role "scheduler") }}, port: metrics}
        {{- toYaml $spec.readinessProbe | nindent 8 }}
      {{- $lifecycle := deepCopy $spec.lifecycle }}
      {{- if and (gt (int $spec.preStopSeconds) 0) (not $lifecycle.preStop) }}
      {{- $_ := set $lifecycle "preStop" (dict "exec" (dict "command" (list "sleep" (toString (int $spec.preStopSeconds))))) }}
      {{- end }}
      {{- with $lifecycle }}
      lifecycle:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      terminationMessagePolicy: FallbackToLogsOnError
      {{- with $spec.resources }}
      resources:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      securityContext:
        {{- toYaml $spec.securityContext | nindent 8 }}
      volumeMounts:
        {{- include "troupe.mounts" . | nindent 8 }}
    {{- range $spec.extraContainers }}
    - {{- merge (deepCopy .) (hasKey . "securityContext" | ternary dict (dict "securityContext" $spec.securityContext)) | toYaml | nindent 6 }}
    {{- end }}
  volumes:
    {{- include "troupe.volumes" . | nindent 4 }}
{{- end }}

{{/* The role's own, and for how long a pod stays on a node that is lost where they do not say it. */}}
{{- define "troupe.tolerations" -}}
{{- $tolerations := .spec.tolerations -}}
{{- if not (kindIs "invalid" .spec.lostNodeSeconds) -}}
{{- range $taint := list "node.kubernetes.io/not-ready" "node.kubernetes.io/unreachable" -}}
{{- $told := false -}}
{{- range $.spec.tolerations -}}{{- if has (get . "key") (list $taint "") -}}{{- $told = true -}}{{- end -}}{{- end -}}
{{- if not $told -}}
{{- $seconds := int $.spec.lostNodeSeconds -}}
{{- $tolerations = append $tolerations (dict "key" $taint "operator" "Exists" "effect" "NoExecute" "tolerationSeconds" $seconds) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- toYaml $tolerations -}}
{{- end }}

{{- define "troupe.affinity" -}}
{{- $affinity := deepCopy .spec.affinity -}}
{{- /* By revision, so that a rollout finds room where every node has a pod. */ -}}
{{- $term := dict "topologyKey" "kubernetes.io/hostname" "labelSelector" (dict "matchLabels" (include "troupe.selectorLabels" . | fromYaml)) -}}
{{- if not (hasKey $affinity "podAntiAffinity") -}}
{{- if eq .spec.antiAffinity "hard" -}}
{{- if semverCompare ">=1.31-0" .root.Capabilities.KubeVersion.Version -}}
{{- $_ := set $term "matchLabelKeys" (list (ternary "controller-revision-hash" "pod-template-hash" (include "troupe.isStateful" . | eq "yes"))) -}}
{{- end -}}
{{- $_ := set $affinity "podAntiAffinity" (dict "requiredDuringSchedulingIgnoredDuringExecution" (list $term)) -}}
{{- else if eq .spec.antiAffinity "soft" -}}
{{- $weighted := dict "weight" 100 "podAffinityTerm" $term -}}
{{- $_ := set $affinity "podAntiAffinity" (dict "preferredDuringSchedulingIgnoredDuringExecution" (list $weighted)) -}}
{{- end -}}
{{- end -}}
{{- toYaml $affinity -}}
{{- end }}

{{- define "troupe.mounts" -}}
{{- $values := .root.Values -}}
- {name: cluster-secret, mountPath: /etc/troupe/cluster, readOnly: true}
{{- if eq .role "scheduler" }}
- {name: state, mountPath: /var/lib/troupe}
{{- end }}
{{- if and (include "troupe.readsModel" .) (include "troupe.source" .root | fromJson).volume }}
- {name: model, mountPath: {{ $values.model.mountPath }}, readOnly: true}
{{- end }}
{{- if include "troupe.cachesWeights" . }}
- {name: weights-cache, mountPath: {{ $values.weightsCache.mountPath }}}
{{- end }}
{{- if $values.tracing.enabled }}
- name: trace
  mountPath: {{ $values.tracing.mountPath }}
  {{- if eq $values.tracing.type "existingClaim" }}
  {{- with $values.tracing.existingClaim.subPath }}
  subPath: {{ . | quote }}
  {{- end }}
  {{- end }}
{{- end }}
{{- if eq .role "gateway" }}
{{- if include "troupe.apiKeysName" .root }}
- {name: api-keys, mountPath: /etc/troupe/api-keys, readOnly: true}
- {name: key-limits, mountPath: /etc/troupe/key-limits, readOnly: true}
{{- end }}
{{- if $values.operatorKeys.existingSecret }}
- {name: operator-keys, mountPath: /etc/troupe/operator-keys, readOnly: true}
{{- end }}
{{- if .spec.tls.existingSecret }}
- {name: tls, mountPath: /etc/troupe/tls, readOnly: true}
{{- end }}
{{- if .spec.chatTemplate }}
- {name: chat-template, mountPath: /etc/troupe/chat-template, readOnly: true}
{{- end }}
{{- end }}
{{- with .spec.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "troupe.volumes" -}}
{{- $values := .root.Values -}}
{{- $cache := $values.weightsCache -}}
- name: cluster-secret
  secret:
    secretName: {{ include "troupe.clusterSecretName" .root }}
    items: [{key: {{ $values.clusterSecret.key }}, path: secret}]
    defaultMode: 0440
{{- if eq .role "scheduler" }}
- name: state
  {{- if .spec.persistence.enabled }}
  persistentVolumeClaim: {claimName: {{ include "troupe.stateClaimName" .root }}}
  {{- else }}
  emptyDir: {}
  {{- end }}
{{- end }}
{{- if $values.tracing.enabled }}
- name: trace
  {{- if eq $values.tracing.type "emptyDir" }}
  emptyDir: { {{- with $values.tracing.emptyDir.sizeLimit }}sizeLimit: {{ . }}{{ end -}} }
  {{- else }}
  persistentVolumeClaim:
    claimName: {{ required "tracing.existingClaim.name: name the claim" $values.tracing.existingClaim.name }}
  {{- end }}
{{- end }}
{{- if and (include "troupe.readsModel" .) (include "troupe.source" .root | fromJson).volume }}
{{ include "troupe.modelVolume" . }}
{{- end }}
{{- if and (include "troupe.readsModel" .) (hasPrefix "hf://" $values.model.source) }}
{{- include "troupe.hubTokenVolume" .root }}
{{- end }}
{{- if include "troupe.cachesWeights" . }}
- name: weights-cache
  {{- if eq $cache.type "emptyDir" }}
  emptyDir: { {{- with $cache.emptyDir.sizeLimit }}sizeLimit: {{ . }}{{ end -}} }
  {{- else if eq $cache.type "ephemeral" }}
  ephemeral:
    volumeClaimTemplate:
      spec:
        accessModes: [ReadWriteOnce]
        {{- with $cache.ephemeral.storageClass | default ($values.global).storageClass }}
        storageClassName: {{ . }}
        {{- end }}
        resources: {requests: {storage: {{ $cache.ephemeral.size }}}}
  {{- else if eq $cache.type "hostPath" }}
  hostPath: {path: {{ required "weightsCache.hostPath.path: name the folder" $cache.hostPath.path | quote }}, type: DirectoryOrCreate}
  {{- else }}
  persistentVolumeClaim:
    claimName: {{ required "weightsCache.existingClaim.name: name the claim" $cache.existingClaim.name }}
  {{- end }}
{{- end }}
{{- if eq .role "gateway" }}
{{- with include "troupe.apiKeysName" .root }}
- name: api-keys
  secret:
    secretName: {{ . }}
    items: [{key: {{ $values.apiKeys.key }}, path: keys}]
    defaultMode: 0440
- name: key-limits
  configMap: {name: {{ include "troupe.fullname" $.root }}-key-limits}
{{- end }}
{{- with $values.operatorKeys.existingSecret }}
- name: operator-keys
  secret:
    secretName: {{ . }}
    items: [{key: {{ $values.operatorKeys.key }}, path: keys}]
    defaultMode: 0440
{{- end }}
{{- with .spec.tls.existingSecret }}
- name: tls
  secret:
    secretName: {{ . }}
    items: [{key: tls.crt, path: tls.crt}, {key: tls.key, path: tls.key}]
    defaultMode: 0440
{{- end }}
{{- if .spec.chatTemplate }}
- name: chat-template
  configMap: {name: {{ include "troupe.fullname" .root }}-chat-template}
{{- end }}
{{- end }}
{{- with .spec.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end }}
