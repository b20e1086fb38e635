{{/* Where the model comes from, and how pods get it. */}}

{{/* model.source taken apart, as JSON: kind, and what belongs to it; name: its last part, dir: where pods find the folder. */}}
{{- define "troupe.source" -}}
{{- $model := .Values.model -}}
{{- $uri := required "model.source: say where the model is: hf://ORG/NAME, pvc://CLAIM/FOLDER, oci://REFERENCE, file:///FOLDER or dir:///FOLDER" $model.source -}}
{{- $kind := first (splitList "://" $uri) -}}
{{- $rest := trimPrefix (printf "%s://" $kind) $uri | trimSuffix "/" -}}
{{- $top := trimSuffix "/" $model.mountPath -}}
{{- $result := dict "kind" $kind "name" (base $rest) "dir" $top "volume" true -}}
{{- if eq $kind "pvc" -}}
{{- $claim := first (splitList "/" $rest) -}}
{{- $_ := set $result "claim" $claim -}}
{{- $_ := set $result "dir" (printf "%s%s" $top (trimPrefix $claim $rest)) -}}
{{- else if eq $kind "hf" -}}
{{- $_ := set $result "repository" $rest -}}
{{- $_ := set $result "name" (first (splitList "@" $rest) | base) -}}
{{- $_ := set $result "claim" ($model.download.claim.existingClaim | default (printf "%s-model" (include "troupe.fullname" .))) -}}
{{- $_ := set $result "dir" (printf "%s/%s" $top $rest) -}}
{{- else if eq $kind "oci" -}}
{{- $_ := set $result "reference" $rest -}}
{{- $_ := set $result "name" (regexReplaceAll "[:@].*$" (base $rest) "") -}}
{{- else if eq $kind "file" -}}
{{- $_ := set $result "path" $rest -}}
{{- else -}}
{{- $_ := set $result "dir" $rest -}}
{{- $_ := set $result "volume" false -}}
{{- end -}}
{{- toJson $result -}}
{{- end }}

{{- define "troupe.modelDir" -}}
{{- (include "troupe.source" . | fromJson).dir -}}
{{- end }}

{{- define "troupe.servedName" -}}
{{- .Values.model.servedName | default (include "troupe.source" . | fromJson).name -}}
{{- end }}

{{/* Does every node download the model for itself? */}}
{{- define "troupe.downloadsOnNodes" -}}
{{- if and (hasPrefix "hf://" .Values.model.source) (eq .Values.model.download.into "node") }}yes{{ end -}}
{{- end }}

{{/* (dict "root" $ "words" LIST "name" NAME): a container that runs troupe-fetch, without "- " in front */}}
{{- define "troupe.fetch" -}}
{{- $values := .root.Values -}}
{{- $download := $values.model.download -}}
name: {{ .name }}
image: {{ include "troupe.image" .root | quote }}
imagePullPolicy: {{ $values.image.pullPolicy }}
command: {{ prepend .words "troupe-fetch" | toJson }}
env:
  - {name: HF_ENDPOINT, value: {{ $download.endpoint | quote }}}
  {{- if $download.token.existingSecret }}
  - {name: HF_TOKEN_FILE, value: /etc/troupe/hub/token}
  {{- end }}
  {{- with $download.env }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with $download.resources }}
resources:
  {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  {{- toYaml $values.pods.securityContext | nindent 2 }}
volumeMounts:
  - {name: model, mountPath: {{ $values.model.mountPath }}{{ if eq (first .words) "wait" }}, readOnly: true{{ end }}}
  {{- if $download.token.existingSecret }}
  - {name: hub-token, mountPath: /etc/troupe/hub, readOnly: true}
  {{- end }}
{{- end }}

{{- define "troupe.hubTokenVolume" -}}
{{- with .Values.model.download.token }}
{{- if .existingSecret }}
- name: hub-token
  secret:
    secretName: {{ .existingSecret }}
    items: [{key: {{ .key }}, path: token}]
    defaultMode: 0440
{{- end }}
{{- end }}
{{- end }}

{{/* What runs in a pod before its process, as a list. (dict "root" $ "role" ROLE "spec" SPEC) */}}
{{- define "troupe.initContainers" -}}
{{- $values := .root.Values -}}
{{- $folders := list -}}
{{- $onNode := and (has .role (list "attention" "expert")) (include "troupe.downloadsOnNodes" .root) -}}
{{- if $onNode }}{{ $folders = append $folders (dict "name" "model" "mountPath" $values.model.mountPath) }}{{ end -}}
{{- if and (include "troupe.cachesWeights" .) (eq $values.weightsCache.type "hostPath") -}}
{{- $folders = append $folders (dict "name" "weights-cache" "mountPath" $values.weightsCache.mountPath) -}}
{{- end -}}
{{- $user := .spec.podSecurityContext.runAsUser -}}
{{- if and $folders $values.hostFolders.prepare (not (kindIs "invalid" $user)) }}
{{- /* The kubelet makes folders of a node for root alone. */}}
- name: prepare-folders
  image: {{ include "troupe.image" .root | quote }}
  imagePullPolicy: {{ $values.image.pullPolicy }}
  command:
    - chown
    - {{ printf "%d:%d" (int64 $user) (int64 (default $user .spec.podSecurityContext.runAsGroup)) | quote }}
    {{- range $folders }}
    - {{ .mountPath }}
    {{- end }}
  securityContext:
    runAsUser: 0
    runAsNonRoot: false
    allowPrivilegeEscalation: false
    readOnlyRootFilesystem: true
    capabilities: {drop: [ALL], add: [CHOWN]}
  volumeMounts:
    {{- toYaml $folders | nindent 4 }}
{{- end }}
{{- if include "troupe.readsModel" . }}
{{- $source := include "troupe.source" .root | fromJson }}
{{- if eq $source.kind "hf" }}
{{- $words := list "wait" $source.dir }}
{{- if include "troupe.downloadsOnNodes" .root }}
{{- $words = concat (list "get" $source.repository $source.dir) (ternary (list "--without-weights") list (eq .role "gateway")) }}
{{- end }}
- {{- include "troupe.fetch" (dict "root" .root "name" "model" "words" $words) | nindent 2 }}
{{- end }}
{{- end }}
{{- range .spec.initContainers }}
- {{- merge (deepCopy .) (hasKey . "securityContext" | ternary dict (dict "securityContext" $.spec.securityContext)) | toYaml | nindent 2 }}
{{- end }}
{{- end }}

{{/* The pods' volume of the model: nobody but a download writes to it. */}}
{{- define "troupe.modelVolume" -}}
{{- $source := include "troupe.source" .root | fromJson -}}
- name: model
  {{- if and (include "troupe.downloadsOnNodes" .root) (eq .role "gateway") }}
  emptyDir: {} # configuration and tokenizer
  {{- else if include "troupe.downloadsOnNodes" .root }}
  hostPath: {path: {{ .root.Values.model.download.nodePath | quote }}, type: DirectoryOrCreate}
  {{- else if $source.claim }}
  persistentVolumeClaim: {claimName: {{ $source.claim }}, readOnly: true}
  {{- else if eq $source.kind "oci" }}
  image: {reference: {{ $source.reference | quote }}, pullPolicy: {{ .root.Values.model.pullPolicy }}}
  {{- else }}
  hostPath: {path: {{ $source.path | quote }}, type: Directory}
  {{- end }}
{{- end }}

{{/* What downloads the model: (dict "root" $ "role" "model" "spec" SPEC "words" LIST "claim" NAME), the spec of a Job */}}
{{- define "troupe.modelJob" -}}
backoffLimit: 20
template:
  metadata:
    labels:
      {{- include "troupe.selectorLabels" . | nindent 6 }}
  spec:
    restartPolicy: OnFailure
    automountServiceAccountToken: false
    enableServiceLinks: false
    {{- with include "troupe.pullSecrets" .root | fromYamlArray }}
    imagePullSecrets:
      {{- toYaml . | nindent 6 }}
    {{- end }}
    {{- with .spec.tolerations }}
    tolerations:
      {{- toYaml . | nindent 6 }}
    {{- end }}
    {{- with .spec.nodeSelector }}
    nodeSelector:
      {{- toYaml . | nindent 6 }}
    {{- end }}
    securityContext:
      {{- toYaml .spec.podSecurityContext | nindent 6 }}
    containers:
      - {{- include "troupe.fetch" (dict "root" .root "name" "model" "words" .words) | nindent 8 }}
    volumes:
      - name: model
        persistentVolumeClaim: {claimName: {{ .claim }}}
      {{- include "troupe.hubTokenVolume" .root | nindent 6 }}
{{- end }}
