{{/* The CA bundle of a live webhook by its name: an upgrade must not tear down what works.
     Nothing is rendered on a first installation or without a cluster (`helm template`, GitOps):
     the controller fills it in and keeps it right. */}}
{{- define "kubevela.caBundle" -}}
{{- $live := lookup "admissionregistration.k8s.io/v1" .kind "" (printf "%s-admission" (include "kubevela.fullname" .root)) -}}
{{- $name := .name -}}
{{- if $live -}}
{{- range $live.webhooks -}}
{{- if and (eq .name $name) .clientConfig.caBundle -}}
{{ .clientConfig.caBundle }}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Whether any edit of an Application may need a patch: a shard. Arguments by hand may say more than the values do. */}}
{{- define "kubevela.admission.patchesAny" -}}
{{- $byHand := join " " (include "kubevela.webhook.values" . | fromYaml).extraArgs -}}
{{- or .Values.sharding.enabled .Values.sharding.restrict (regexMatch "feature-gates|shard|authentication" $byHand) -}}
{{- end -}}

{{/* An annotation of an object or "", as an expression. dict: object, key */}}
{{- define "kubevela.admission.annotation" -}}
(has({{ .object }}.metadata.annotations) && {{ .key }} in {{ .object }}.metadata.annotations ? {{ .object }}.metadata.annotations[{{ .key }}] : "")
{{- end -}}

{{/* One webhook. dict: root, kind, name, path, resource; version, if it is not v1beta1; stamped: its objects say who wrote them,
     and that is all that is asked */}}
{{- define "kubevela.admission.webhook" -}}
{{- $root := .root -}}
- name: {{ .name }}
  admissionReviewVersions: ["v1", "v1beta1"]
  sideEffects: None
  # The same from the first rendering on: there is no window in which anything passes unseen.
  failurePolicy: {{ $root.Values.admissionWebhooks.failurePolicy }}
  timeoutSeconds: {{ $root.Values.admissionWebhookTimeout | default 10 }}
  clientConfig:
    service:
      name: {{ include "kubevela.webhook.service" $root }}
      namespace: {{ $root.Release.Namespace }}
      path: {{ .path }}
      port: 443
    {{- $bundle := include "kubevela.caBundle" (dict "root" $root "kind" .kind "name" .name) | trim }}
    {{- with $bundle }}
    caBundle: {{ . }}
    {{- end }}
  {{- with $root.Values.admissionWebhooks.namespaceSelector }}
  namespaceSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $root.Values.admissionWebhooks.objectSelector }}
  objectSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- if and (has .resource (list "applications" "workflowruns")) (eq .kind "MutatingWebhookConfiguration") }}
  # What is sealed is what will be stored: who changes an Application behind us makes us look again.
  reinvocationPolicy: IfNeeded
  {{- end }}
  rules:
    - apiGroups: ["core.oam.dev"]
      apiVersions: [{{ .version | default "v1beta1" | quote }}]
      resources: [{{ .resource | quote }}]
      operations: ["CREATE", "UPDATE"]
      scope: Namespaced
  matchConditions:
    {{- if eq .resource "applications" }}
    # The controller writes metadata only; its writes must not depend on its own admission.
    - name: not-the-controller
      expression: 'request.userInfo.username != "{{ include "kubevela.controllerIdentity" $root }}"'
    # Owner references and finalizers say nothing about what is deployed; removing a finalizer
    # must work whatever state the object is in. Labels and annotations carry identity and shard.
    - name: says-something
      expression: >-
        request.operation == "CREATE"
        || has(object.spec) != has(oldObject.spec) || (has(object.spec) && object.spec != oldObject.spec)
        || has(object.metadata.annotations) != has(oldObject.metadata.annotations)
        || (has(object.metadata.annotations) && object.metadata.annotations != oldObject.metadata.annotations)
        || has(object.metadata.labels) != has(oldObject.metadata.labels)
        || (has(object.metadata.labels) && object.metadata.labels != oldObject.metadata.labels)
    {{- if and (eq .kind "MutatingWebhookConfiguration") (ne (include "kubevela.admission.patchesAny" $root) "true") }}
    {{- if eq (include "kubevela.authentication" $root) "true" }}
    # An edit of metadata that decides nothing of what is deployed, and says nothing of who decides, is let through as it is.
    - name: may-need-a-patch
      expression: >-
        request.operation == "CREATE"
        || has(object.spec) != has(oldObject.spec) || (has(object.spec) && object.spec != oldObject.spec)
        || ["app.oam.dev/username", "app.oam.dev/group", "app.oam.dev/administrator", "app.oam.dev/stamp",
        "app.oam.dev/service-account-name", "app.oam.dev/publishVersion", "app.oam.dev/autoUpdate",
        "controller.core.oam.dev/shard"].exists(k,
        {{ include "kubevela.admission.annotation" (dict "object" "object" "key" "k") }}
        != {{ include "kubevela.admission.annotation" (dict "object" "oldObject" "key" "k") }})
    {{- else }}
    # An edit without a workflow, whose steps may need names, would be let through as it is if there is no word on identity,
    # nor a change of the pool, which are not everybody's to write.
    - name: may-need-a-patch
      expression: >-
        request.operation == "CREATE"
        || !has(object.spec) || type(object.spec) != map || has(object.spec.workflow)
        || [object, oldObject].exists(o, has(o.metadata.annotations)
        && ("app.oam.dev/username" in o.metadata.annotations || "app.oam.dev/group" in o.metadata.annotations))
        || ["controller.core.oam.dev/shard"].exists(k,
        {{ include "kubevela.admission.annotation" (dict "object" "object" "key" "k") }}
        != {{ include "kubevela.admission.annotation" (dict "object" "oldObject" "key" "k") }})
    {{- end }}
    {{- end }}
    {{- else if eq .resource "workflowruns" }}
    # The controller writes their status only. One that nobody stamped does not run.
    - name: not-the-controller
      expression: 'request.userInfo.username != "{{ include "kubevela.controllerIdentity" $root }}"'
    - name: not-being-deleted
      expression: '!has(object.metadata.deletionTimestamp)'
    {{- else if .stamped }}
    # What is there is the administrators', and what the controller writes it stamps itself.
    - name: not-the-system
      expression: >-
        request.namespace != "{{ include "systemDefinitionNamespace" $root }}"
        && request.userInfo.username != "{{ include "kubevela.controllerIdentity" $root }}"
    - name: not-being-deleted
      expression: '!has(object.metadata.deletionTimestamp)'
    {{- else }}
    - name: not-being-deleted
      expression: '!has(object.metadata.deletionTimestamp)'
    # An installation, upgrade or rollback brings the built-in definitions, possibly before any
    # webhook Pod answers; they were checked when the chart was made. Whoever edits one of them by
    # hand is no release.
    - name: not-of-this-release
      expression: >-
        !(request.namespace == "{{ include "systemDefinitionNamespace" $root }}"
        && has(object.metadata.annotations)
        && "meta.helm.sh/release-name" in object.metadata.annotations
        && object.metadata.annotations["meta.helm.sh/release-name"] == "{{ $root.Release.Name }}"
        && "meta.helm.sh/release-namespace" in object.metadata.annotations
        && object.metadata.annotations["meta.helm.sh/release-namespace"] == "{{ $root.Release.Namespace }}"
        && !(has(request.options) && has(request.options.fieldManager)
        && request.options.fieldManager.startsWith("kubectl")))
    {{- end }}
{{- end -}}
