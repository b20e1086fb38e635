{{/* Rules of deploy/prometheus/rules for this release. */}}

{{/* (dict "root" $ "rule" RULE): pairs of what a rule's text has and what this release has instead. */}}
{{- define "troupe.ruleTexts" -}}
{{- $values := .root.Values -}}
{{- $objectives := $values.prometheusRules.objectives -}}
{{- $name := include "troupe.fullname" .root -}}
{{- $pairs := list
    (list "job=~\"troupe.*\"" (printf "job=%q" (printf "%s/%s" .root.Release.Namespace $name)))
    (list "namespace=~\".+\",pod=~\"troupe-" (printf "namespace=%q,pod=~\"%s-" .root.Release.Namespace $name))
    (list "troupe_" $values.metrics.prefix)
    (list "le=\"10\"" (printf "le=\"%v\"" $objectives.firstTokens.seconds))
    (list "le=\"0.5\"" (printf "le=\"%v\"" $objectives.tokens.seconds))
    (list "[1h])) == 1" (printf "[%s])) == 1" $values.prometheusRules.startTime))
    (list "offset 1h" (printf "offset %s" $values.prometheusRules.startTime)) -}}
{{- with (.rule.labels | default dict).objective -}}
{{- $pairs = append $pairs (list " >= 10" (printf " >= %v" $objectives.leastEvents)) -}}
{{- if eq . "errors" -}}
{{- $pairs = append $pairs (list "0.005" (toString $objectives.errors.share)) -}}
{{- else if eq . "first_token" -}}
{{- $pairs = concat $pairs (list (list "0.05" (toString $objectives.firstTokens.share)) (list "10 s" (printf "%v s" $objectives.firstTokens.seconds))) -}}
{{- else -}}
{{- $pairs = concat $pairs (list (list "0.01" (toString $objectives.tokens.share)) (list "0.5 s" (printf "%v s" $objectives.tokens.seconds))) -}}
{{- end -}}
{{- end -}}
{{- if .rule.alert -}}
{{- $pairs = append $pairs (list "docs/runbooks.md#" (printf "%sdocs/runbooks.md#" (ternary "" (printf "%s/" (trimSuffix "/" $values.prometheusRules.runbookBase)) (empty $values.prometheusRules.runbookBase)))) -}}
{{- end -}}
{{- $pairs | toJson -}}
{{- end }}

{{/* (dict "root" $ "content" TEXT): the groups of a file. */}}
{{- define "troupe.rules" -}}
{{- $root := .root -}}
{{- $chosen := $root.Values.prometheusRules -}}
{{- $groups := list -}}
{{- range $group := (.content | fromYaml).groups -}}
{{- $rules := list -}}
{{- range $group.rules -}}
{{- if not (and .alert (has .alert $chosen.disabled)) -}}
{{- $text := toJson . -}}
{{- range include "troupe.ruleTexts" (dict "root" $root "rule" .) | fromJsonArray -}}
{{- $from := index . 0 | toJson | trimPrefix "\"" | trimSuffix "\"" -}}
{{- $to := index . 1 | toJson | trimPrefix "\"" | trimSuffix "\"" -}}
{{- $text = $text | replace $from $to -}}
{{- end -}}
{{- $rule := $text | fromJson -}}
{{- if .alert -}}
{{- $labels := merge (dict "severity" (index $chosen.severities .labels.severity)) $chosen.additionalRuleLabels $rule.labels -}}
{{- $rule = set $rule "labels" $labels -}}
{{- end -}}
{{- $rules = append $rules $rule -}}
{{- end -}}
{{- end -}}
{{- with $rules -}}
{{- $groups = append $groups (dict "name" $group.name "rules" .) -}}
{{- end -}}
{{- end -}}
{{- toYaml (dict "groups" $groups) -}}
{{- end }}
