{{/* The pod of a workload. All defines take (dict "root" $ "role" ROLE "pool" NAME "spec" SPEC). */}}

{{- define "troupe.readsModel" -}}
{{- if ne .role "scheduler" }}yes{{ end -}}
{{- end }}

{{- define "troupe.cachesWeights" -}}
{{- if and (has .role (list "attention" "expert")) (ne .root.Values.weightsCache.type "none") }}yes{{ end -}}
{{- end }}

{{- define "troupe.podTemplate" -}}
{{- $root := .root -}}
{{- $spec := .spec -}}
{{- $values := $root.Values -}}
metadata:
  labels:
    {{- /* Nothing that changes with the chart alone: it would replace every pod. */}}
    {{- include "troupe.selectorLabels" . | nindent 4 }}
    {{- with merge (dict) $spec.podLabels $values.commonLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- $annotations := dict -}}
  {{- if and (eq .role "gateway") $spec.chatTemplate }}
  {{- $_ := set $annotations "checksum/chat-template" ($spec.chatTemplate | sha256sum) }}
  {{- end }}
  {{- if and (eq .role "gateway") $values.apiKeys.keys (not $values.apiKeys.existingSecret) }}
  {{- $_ := set $annotations "checksum/api-keys" ($values.apiKeys.keys | toJson | sha256sum) }}
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
  terminationGracePeriodSeconds: {{ $spec.terminationGracePeriodSeconds | int }}
  {{- with $values.imagePullSecrets }}
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
  {{- with $spec.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $spec.tolerations }}
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
  {{- $filled := and (include "troupe.readsModel" .) $values.model.initContainer }}
  {{- if or $filled $spec.initContainers }}
  initContainers:
    {{- if $filled }}
    {{- $mount := dict "name" "model" "mountPath" $values.model.mountPath }}
    {{- $mounts := append (($values.model.initContainer).volumeMounts | default list) $mount }}
    {{- $defaults := dict "name" "model" "securityContext" $spec.securityContext }}
    - {{- merge (dict "volumeMounts" $mounts) (deepCopy $values.model.initContainer) $defaults | toYaml | nindent 6 }}
    {{- end }}
    {{- with $spec.initContainers }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
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
      {{- if gt (int $spec.preStopSeconds) 0 }}
      lifecycle:
        preStop:
          exec: {command: [sleep, {{ $spec.preStopSeconds | int | quote }}]}
      {{- end }}
      {{- with $spec.resources }}
      resources:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      securityContext:
        {{- toYaml $spec.securityContext | nindent 8 }}
      volumeMounts:
        {{- include "troupe.mounts" . | nindent 8 }}
    {{- with $spec.extraContainers }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  volumes:
    {{- include "troupe.volumes" . | nindent 4 }}
{{- end }}

{{- define "troupe.affinity" -}}
{{- $affinity := deepCopy .spec.affinity -}}
{{- $term := dict "topologyKey" "kubernetes.io/hostname" "labelSelector" (dict "matchLabels" (include "troupe.selectorLabels" . | fromYaml)) -}}
{{- if not (hasKey $affinity "podAntiAffinity") -}}
{{- if eq .spec.antiAffinity "hard" -}}
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
{{- if and (include "troupe.readsModel" .) (ne $values.model.volume.type "none") }}
- name: model
  mountPath: {{ $values.model.mountPath }}
  {{- if eq $values.model.volume.type "existingClaim" }}
  {{- with $values.model.volume.existingClaim.subPath }}
  subPath: {{ . | quote }}
  {{- end }}
  {{- end }}
  readOnly: true
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
{{- $model := $values.model.volume -}}
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
{{- if include "troupe.readsModel" . }}
{{- if has $model.type (list "pvc" "existingClaim") }}
- name: model
  persistentVolumeClaim:
    claimName: {{ include "troupe.modelClaimName" .root }}
{{- else if eq $model.type "image" }}
- name: model
  image:
    reference: {{ required "model.volume.image.reference: name the image" $model.image.reference | quote }}
    pullPolicy: {{ $model.image.pullPolicy }}
{{- else if eq $model.type "hostPath" }}
- name: model
  hostPath: {path: {{ required "model.volume.hostPath.path: name the folder" $model.hostPath.path | quote }}, type: Directory}
{{- else if eq $model.type "emptyDir" }}
- name: model
  emptyDir: { {{- with $model.emptyDir.sizeLimit }}sizeLimit: {{ . }}{{ end -}} }
{{- end }}
{{- end }}
{{- if include "troupe.cachesWeights" . }}
- name: weights-cache
  {{- if eq $cache.type "emptyDir" }}
  emptyDir: { {{- with $cache.emptyDir.sizeLimit }}sizeLimit: {{ . }}{{ end -}} }
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
