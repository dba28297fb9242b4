{{/* Names as in the chart this one replaces: objects keep their names over an upgrade. */}}
{{- define "kubevela.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "kubevela.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "kubevela.chart" -}}
{{- printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* Labels of everything. */}}
{{- define "kubevela.commonLabels" -}}
helm.sh/chart: {{ include "kubevela.chart" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{/* The controller: the labels the command line client, addons and shards look for. A Deployment's
     selector cannot change, so these are exactly those of the chart this one replaces. */}}
{{- define "kubevela.selectorLabels" -}}
app.kubernetes.io/name: {{ include "kubevela.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "kubevela.labels" -}}
{{ include "kubevela.commonLabels" . }}
{{ include "kubevela.selectorLabels" . }}
{{- end -}}

{{/* The webhook: a name of its own, so that `vela top`, logs and shard discovery do not find it. */}}
{{- define "kubevela.webhook.selectorLabels" -}}
app.kubernetes.io/name: {{ include "kubevela.name" . }}-webhook
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "kubevela.webhook.labels" -}}
{{ include "kubevela.commonLabels" . }}
{{ include "kubevela.webhook.selectorLabels" . }}
app.kubernetes.io/component: webhook
{{- end -}}

{{- define "kubevela.webhook.fullname" -}}
{{- printf "%s-webhook" (include "kubevela.fullname" . | trunc 55 | trimSuffix "-") -}}
{{- end -}}

{{/* Name of the Service the API server calls; the serving certificate is made for it. */}}
{{- define "kubevela.webhook.service" -}}
{{- printf "%s-webhook" (include "kubevela.name" .) -}}
{{- end -}}

{{- define "kubevela.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "kubevela.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{/* Whether each controller works under a ServiceAccount of its own. */}}
{{- define "kubevela.ownAccounts" -}}
{{- (include "kubevela.controller.values" . | fromYaml).serviceAccountCredentials -}}
{{- end -}}

{{/* The ServiceAccount of a controller: its own, else the Pod's. dict: root, controller */}}
{{- define "kubevela.accountOf" -}}
{{- if eq (include "kubevela.ownAccounts" .root) "true" -}}
{{- printf "vela-%s-controller" .controller -}}
{{- else -}}
{{- include "kubevela.serviceAccountName" .root -}}
{{- end -}}
{{- end -}}

{{/* Whether the controller issues the admission certificate. */}}
{{- define "kubevela.issuesCertificate" -}}
{{- and .Values.admissionWebhooks.enabled (not .Values.admissionWebhooks.certManager.enabled) -}}
{{- end -}}

{{/* The controllers that have a ServiceAccount of their own, as a JSON list. */}}
{{- define "kubevela.controllersWithAccounts" -}}
{{- $all := list "componentdefinition" "traitdefinition" "policydefinition" "workflowstepdefinition" "application" -}}
{{- if or (eq (include "kubevela.issuesCertificate" .) "true") (eq (include "kubevela.gateway.issuesCertificate" .) "true") -}}
{{- $all = prepend $all "certificates" -}}
{{- end -}}
{{- toJson $all -}}
{{- end -}}

{{/* Who writes Applications, as the API server names it. */}}
{{- define "kubevela.controllerIdentity" -}}
{{- printf "system:serviceaccount:%s:%s" .Release.Namespace (include "kubevela.accountOf" (dict "root" . "controller" "application")) -}}
{{- end -}}

{{- define "systemDefinitionNamespace" -}}
{{- default .Release.Namespace .Values.systemDefinitionNamespace -}}
{{- end -}}

{{/* The new blocks of values. An upgrade with --reuse-values does not bring their defaults along,
     hence they are merged here. Keep in step with values.yaml (`cargo xtask charts` compares). */}}
{{- define "kubevela.webhook.values" -}}
{{- $defaults := dict
  "replicaCount" 2
  "image" (dict "repository" "vela-webhook" "tag" "" "digest" "" "pullPolicy" "IfNotPresent" "pullSecrets" list)
  "resources" (dict "requests" (dict "cpu" "50m" "memory" "64Mi") "limits" (dict "memory" "256Mi"))
  "logFormat" "json"
  "certWaitTimeout" "90s"
  "certWaitInterval" "2s"
  "clientCA" (dict "configMapName" "" "key" "ca.crt")
  "priorityClassName" ""
  "podDisruptionBudget" (dict "enabled" true)
  "autoscaling" (dict "enabled" false "minReplicas" 2 "maxReplicas" 5 "targetCPUUtilizationPercentage" 70)
  "topologySpread" true
  "topologySpreadConstraints" list
  "hostNetwork" false
  "dnsPolicy" ""
  "healthPort" 0
  "metricsPort" 8080
  "strategy" dict
  "revisionHistoryLimit" 10
  "serviceAccount" (dict "create" true "name" "" "annotations" dict)
  "podLabels" dict
  "extraEnv" list "extraVolumes" list "extraVolumeMounts" list
  "terminationGracePeriodSeconds" 60
  "shutdownDelaySeconds" 8
  "nodeSelector" dict "tolerations" list "affinity" dict
  "podAnnotations" dict
  "refObjects" (dict "rules" (list
    (dict "apiGroups" (list "") "resources" (list "configmaps" "services" "serviceaccounts" "persistentvolumeclaims" "persistentvolumes" "namespaces"))
    (dict "apiGroups" (list "apps") "resources" (list "deployments" "statefulsets" "daemonsets"))
    (dict "apiGroups" (list "batch") "resources" (list "jobs" "cronjobs"))
    (dict "apiGroups" (list "networking.k8s.io") "resources" (list "ingresses" "ingressclasses" "networkpolicies"))
    (dict "apiGroups" (list "autoscaling") "resources" (list "horizontalpodautoscalers"))
    (dict "apiGroups" (list "policy") "resources" (list "poddisruptionbudgets"))
    (dict "apiGroups" (list "storage.k8s.io") "resources" (list "storageclasses"))))
  "extraArgs" list
-}}
{{- mergeOverwrite $defaults (deepCopy (.Values.webhook | default dict)) | toYaml -}}
{{- end -}}

{{- define "kubevela.controller.values" -}}
{{- $defaults := dict
  "image" (dict "repository" "vela-controller" "tag" "" "digest" "" "pullPolicy" "IfNotPresent" "pullSecrets" list)
  "logFormat" "json"
  "priorityClassName" ""
  "podDisruptionBudget" (dict "enabled" false)
  "podAnnotations" dict
  "terminationGracePeriodSeconds" 30
  "topologySpreadConstraints" list
  "dnsPolicy" ""
  "strategy" dict
  "revisionHistoryLimit" 10
  "podLabels" dict
  "extraEnv" list "extraVolumes" list "extraVolumeMounts" list
  "serviceAccountCredentials" false
  "extraArgs" list
-}}
{{- mergeOverwrite $defaults (deepCopy (.Values.controller | default dict)) | toYaml -}}
{{- end -}}

{{/* How the number of replicas that share follows the load. The block `sharding` of older charts does not have it. */}}
{{- define "kubevela.sharding.autoscaling" -}}
{{- $defaults := dict "enabled" false "minReplicas" 2 "maxReplicas" 10 "targetBacklogSeconds" 5 "targetCPUUtilizationPercentage" 70 -}}
{{- mergeOverwrite $defaults (deepCopy (.Values.sharding.autoscaling | default dict)) | toYaml -}}
{{- end -}}

{{/* The aggregated API of clusters. Names are those of the chart this one replaces. */}}
{{- define "kubevela.gateway.values" -}}
{{- $defaults := dict
  "image" (dict "repository" "vela-gateway" "tag" "" "digest" "" "pullPolicy" "IfNotPresent" "pullSecrets" list)
  "logFormat" "json"
  "priorityClassName" ""
  "podDisruptionBudget" (dict "enabled" true)
  "topologySpread" true
  "topologySpreadConstraints" list
  "healthPort" 0
  "metricsPort" 8080
  "strategy" dict
  "revisionHistoryLimit" 10
  "serviceAccount" (dict "create" true "name" "" "annotations" dict)
  "podAnnotations" dict "podLabels" dict
  "extraEnv" list "extraVolumes" list "extraVolumeMounts" list
  "terminationGracePeriodSeconds" 60
  "shutdownDelaySeconds" 8
  "nodeSelector" dict "tolerations" list "affinity" dict
  "extraArgs" list
-}}
{{- mergeOverwrite $defaults (deepCopy (.Values.gateway | default dict)) | toYaml -}}
{{- end -}}

{{- define "kubevela.clusterGateway.values" -}}
{{- $defaults := dict
  "enabled" true
  "implementation" "native"
  "replicaCount" 1
  "port" 9443
  "image" (dict "repository" "oamdev/cluster-gateway" "tag" "v1.9.0-alpha.2" "pullPolicy" "IfNotPresent")
  "resources" (dict "requests" (dict "cpu" "20m" "memory" "16Mi") "limits" (dict "memory" "128Mi"))
  "secureTLS" (dict "certPath" "/etc/k8s-cluster-gateway-certs" "certManager" (dict "enabled" false))
-}}
{{- $given := (.Values.multicluster | default dict).clusterGateway | default dict -}}
{{- mergeOverwrite $defaults (deepCopy $given) | toYaml -}}
{{- end -}}

{{/* Which one is deployed: "native", "original", or nothing. */}}
{{- define "kubevela.gateway.implementation" -}}
{{- $g := include "kubevela.clusterGateway.values" . | fromYaml -}}
{{- if and (.Values.multicluster | default dict).enabled $g.enabled -}}
{{- $g.implementation -}}
{{- end -}}
{{- end -}}

{{/* Whether the controller issues its certificate. */}}
{{- define "kubevela.gateway.issuesCertificate" -}}
{{- $g := include "kubevela.clusterGateway.values" . | fromYaml -}}
{{- and (ne (include "kubevela.gateway.implementation" .) "") (not $g.secureTLS.certManager.enabled) -}}
{{- end -}}

{{- define "kubevela.gateway.fullname" -}}
{{- printf "%s-cluster-gateway" (.Release.Name | trunc 48 | trimSuffix "-") -}}
{{- end -}}

{{- define "kubevela.gateway.service" -}}
{{- printf "%s-service" (include "kubevela.gateway.fullname" .) -}}
{{- end -}}

{{- define "kubevela.gateway.secret" -}}
{{- printf "%s-cluster-gateway-tls-v2" (include "kubevela.fullname" .) -}}
{{- end -}}

{{/* A Deployment's selector cannot change. */}}
{{- define "kubevela.gateway.selectorLabels" -}}
app.kubernetes.io/name: {{ include "kubevela.name" . }}-cluster-gateway
app.kubernetes.io/instance: {{ .Release.Name }}-cluster-gateway
{{- end -}}

{{- define "kubevela.gateway.labels" -}}
{{ include "kubevela.commonLabels" . }}
{{ include "kubevela.gateway.selectorLabels" . }}
app.kubernetes.io/component: gateway
{{- end -}}

{{- define "kubevela.gateway.serviceAccountName" -}}
{{- $account := (include "kubevela.gateway.values" . | fromYaml).serviceAccount -}}
{{- $account.name | default (ternary (include "kubevela.gateway.fullname" .) "default" $account.create) -}}
{{- end -}}

{{- define "kubevela.ui.fullname" -}}
{{- printf "%s-ui" (include "kubevela.fullname" . | trunc 60 | trimSuffix "-") -}}
{{- end -}}

{{/* A name of its own, so that clients do not take it for the controller. */}}
{{- define "kubevela.ui.selectorLabels" -}}
app.kubernetes.io/name: {{ include "kubevela.name" . }}-ui
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "kubevela.ui.labels" -}}
{{ include "kubevela.commonLabels" . }}
{{ include "kubevela.ui.selectorLabels" . }}
app.kubernetes.io/component: ui
{{- end -}}

{{/* Image of a block: registry prefix, repository, and digest, tag or the chart's version. dict: root, image */}}
{{- define "kubevela.image" -}}
{{- $name := printf "%s%s" (.root.Values.imageRegistry | default "") .image.repository -}}
{{- if .image.digest -}}
{{- printf "%s@%s" $name .image.digest -}}
{{- else -}}
{{- printf "%s:%s" $name (.image.tag | default .root.Chart.AppVersion) -}}
{{- end -}}
{{- end -}}

{{/* Secrets to pull an image with: its own, else everybody's. dict: root, image */}}
{{- define "kubevela.imagePullSecrets" -}}
{{- with .image.pullSecrets | default .root.Values.imagePullSecrets -}}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end -}}
{{- end -}}

{{/* Where Prometheus finds the metrics without a ServiceMonitor. dict: root, port */}}
{{- define "kubevela.scrapeAnnotations" -}}
{{- if dig "scrapeAnnotations" true .root.Values.core.metrics -}}
prometheus.io/path: /metrics
prometheus.io/port: {{ .port | quote }}
{{- if include "kubevela.metricsSecret" .root }}
prometheus.io/scheme: https
{{- end }}
prometheus.io/scrape: "true"
{{- end -}}
{{- end -}}

{{/* The Secret with the certificate of the metrics; empty if they are served in the clear. */}}
{{- define "kubevela.metricsSecret" -}}
{{- dig "tls" "secretName" "" .Values.core.metrics -}}
{{- end -}}

{{- define "kubevela.metricsMount" -}}
- name: metrics-certificate
  mountPath: /metrics-certificate
  readOnly: true
{{- end -}}

{{/* Optional: the program starts without it, and serves its metrics once it is there. */}}
{{- define "kubevela.metricsVolume" -}}
- name: metrics-certificate
  secret:
    defaultMode: 0440
    secretName: {{ include "kubevela.metricsSecret" . }}
    optional: true
{{- end -}}

{{/* What comes between a Pod and its node and zone. dict: constraints, spread, labels */}}
{{- define "kubevela.topologySpread" -}}
{{- if .constraints -}}
topologySpreadConstraints:
  {{- toYaml .constraints | nindent 2 }}
{{- else if .spread -}}
topologySpreadConstraints:
  {{- $labels := .labels }}
  {{- range list "topology.kubernetes.io/zone" "kubernetes.io/hostname" }}
  - maxSkew: 1
    topologyKey: {{ . }}
    whenUnsatisfiable: ScheduleAnyway
    matchLabelKeys: ["pod-template-hash"]
    labelSelector:
      matchLabels:
        {{- $labels | nindent 8 }}
  {{- end }}
{{- end -}}
{{- end -}}

{{- define "kubevela.webhook.serviceAccountName" -}}
{{- $account := (include "kubevela.webhook.values" . | fromYaml).serviceAccount -}}
{{- $account.name | default (ternary (include "kubevela.webhook.fullname" .) "default" $account.create) -}}
{{- end -}}

{{/*
Values of the chart this one replaces that are accepted and mean nothing here, as far as they are set to something else than
its default: "path", one a line.
*/}}
{{- define "kubevela.ignoredValues" -}}
{{- range $path, $default := dict
    "image.repository" "oamdev/vela-core"
    "image.pullPolicy" "Always"
    "logFilePath" ""
    "logFileMaxSize" "1024"
    "rbac.create" "true"
    "readinessProbe.initialDelaySeconds" "30"
    "livenessProbe.initialDelaySeconds" "90"
    "multicluster.clusterGateway.direct" "true"
    "multicluster.clusterGateway.secureTLS.enabled" "true"
    "multicluster.clusterGateway.serviceMonitor.enabled" "false"
    "admissionWebhooks.patch.enabled" "true"
    "admissionWebhooks.patch.image.repository" "oamdev/kube-webhook-certgen"
    "admissionWebhooks.appConversion.enabled" "false"
    "workflow.enableExternalPackageForDefaultCompiler" "true"
    "workflow.enableExternalPackageWatchForDefaultCompiler" "false"
    "optimize.cachedGvks" ""
    "optimize.markWithProb" "0.1"
    "optimize.disableComponentRevision" "true"
    "optimize.disableApplicationRevision" "false"
    "optimize.enableInMemoryWorkflowContext" "false"
    "optimize.disableResourceApplyDoubleCheck" "false"
    "optimize.enableResourceTrackerDeleteOnlyTrigger" "true" }}
{{- $value := $.Values }}
{{- range splitList "." $path }}
{{- $value = ternary (get (ternary $value dict (kindIs "map" $value)) .) nil (kindIs "map" $value) }}
{{- end }}
{{- $text := ternary "" (toString $value) (kindIs "invalid" $value) }}
{{- if and $text (ne $text $default) }}
{{ $path }}
{{- end }}
{{- end }}
{{- end -}}

{{/*
Whether Applications are stamped with the identity of their author, and applied under it.
Set: as set. Not set: on for a new installation; off for an upgrade of one that ran without it,
recognised by the cluster-admin binding that such an installation has. A rendering that sees no cluster
cannot tell the two apart, so it asks for the value: the wrong guess takes the rights of every Application.
*/}}
{{- define "kubevela.authentication" -}}
{{- $enabled := (.Values.authentication | default dict).enabled -}}
{{- if kindIs "bool" $enabled -}}
{{- $enabled -}}
{{- else if not (lookup "v1" "Namespace" "" "kube-system") -}}
{{- fail "authentication.enabled must be set where the chart is rendered without a cluster (helm template, GitOps, --dry-run=client): true for a new installation; false for one that runs without authentication, until its Applications are prepared for it" -}}
{{- else -}}
{{- $old := lookup "rbac.authorization.k8s.io/v1" "ClusterRoleBinding" "" (printf "%s:manager-rolebinding" (include "kubevela.fullname" .)) -}}
{{- not $old -}}
{{- end -}}
{{- end -}}

{{/*
Arguments of the controller that a release runs with, joined; empty without one, and where no cluster is seen. What is on for new
installations only stays as it is over an upgrade: these arguments are where that is remembered.
*/}}
{{- define "kubevela.deployedArgs" -}}
{{- $deployed := lookup "apps/v1" "Deployment" .Release.Namespace (include "kubevela.fullname" .) | default dict -}}
{{- range dig "spec" "template" "spec" "containers" list $deployed -}}
{{- if eq .name $.Release.Name -}}
{{- join "\n" (.args | default list) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Whether a new installation is rendered, with a cluster in view. */}}
{{- define "kubevela.isNew" -}}
{{- and (lookup "v1" "Namespace" "" "kube-system") (not (lookup "apps/v1" "Deployment" .Release.Namespace (include "kubevela.fullname" .))) | not | not -}}
{{- end -}}

{{/* Whether `Ready` waits for health. */}}
{{- define "kubevela.readyMeansHealthy" -}}
{{- $given := (.Values.status | default dict).readyMeansHealthy -}}
{{- if kindIs "bool" $given -}}
{{- $given -}}
{{- else if eq (include "kubevela.isNew" .) "true" -}}
true
{{- else -}}
{{- contains "--ready-means-healthy" (include "kubevela.deployedArgs" .) -}}
{{- end -}}
{{- end -}}

{{/* What objects do not inherit from their Application, separated by commas. */}}
{{- define "kubevela.inheritExclude" -}}
{{- $given := (.Values.inherit | default dict).exclude -}}
{{- if kindIs "slice" $given -}}
{{- join "," $given -}}
{{- else if eq (include "kubevela.isNew" .) "true" -}}
app.kubernetes.io/instance,argocd.argoproj.io/*,kustomize.toolkit.fluxcd.io/*,helm.toolkit.fluxcd.io/*,meta.helm.sh/*
{{- else -}}
{{- regexFind "--inherit-exclude=[^\n]*" (include "kubevela.deployedArgs" .) | trimPrefix "--inherit-exclude=" -}}
{{- end -}}
{{- end -}}

{{/* What is stamped: the name of the author too, and which groups. The webhook and the condition under which it is asked for a
patch must agree. */}}
{{- define "kubevela.authentication.withUser" -}}
{{- dig "withUser" true (.Values.authentication | default dict) -}}
{{- end -}}

{{- define "kubevela.authentication.groupPattern" -}}
{{- dig "groupPattern" "kubevela:*" (.Values.authentication | default dict) -}}
{{- end -}}

{{/* Group under which the Applications of cluster administrators are applied. */}}
{{- define "kubevela.adminGroup" -}}
{{- default "kubevela:cluster-admins" (.Values.authentication | default dict).adminGroup -}}
{{- end -}}

{{/* The Secret with the key that stamps are sealed with. */}}
{{- define "kubevela.stampKey" -}}
{{- printf "%s-stamp-key" (include "kubevela.fullname" . | trunc 53 | trimSuffix "-") -}}
{{- end -}}

{{/* Who is never impersonated: the accounts of this release, as a JSON list. */}}
{{- define "kubevela.protectedIdentities" -}}
{{- $accounts := list (include "kubevela.serviceAccountName" .) (include "kubevela.webhook.fullname" .) -}}
{{- if eq (include "kubevela.gateway.implementation" .) "native" -}}
{{- $accounts = append $accounts (include "kubevela.gateway.serviceAccountName" .) -}}
{{- end -}}
{{- if eq (include "kubevela.ownAccounts" .) "true" -}}
{{- range include "kubevela.controllersWithAccounts" . | fromJsonArray -}}
{{- $accounts = append $accounts (printf "vela-%s-controller" .) -}}
{{- end -}}
{{- end -}}
{{- $identities := list -}}
{{- range $accounts -}}
{{- $identities = append $identities (printf "system:serviceaccount:%s:%s" $.Release.Namespace .) -}}
{{- end -}}
{{- toJson $identities -}}
{{- end -}}

{{/* Arguments that both deployables must agree on. */}}
{{- define "kubevela.sharedArgs" -}}
- "--system-definition-namespace={{ include "systemDefinitionNamespace" . }}"
- "--feature-gates=AuthenticateApplication={{ include "kubevela.authentication" . }}"
{{- if eq (include "kubevela.authentication" .) "true" }}
- "--authentication-with-user={{ include "kubevela.authentication.withUser" . }}"
- {{ dig "defaultUser" "kubevela:vela-core" (.Values.authentication | default dict) | printf "--authentication-default-user=%s" | quote }}
- {{ include "kubevela.authentication.groupPattern" . | printf "--authentication-group-pattern=%s" | quote }}
- {{ include "kubevela.adminGroup" . | printf "--authentication-admin-group=%s" | quote }}
{{- end }}
{{- range include "kubevela.protectedIdentities" . | fromJsonArray }}
- "--protected-identity={{ . }}"
{{- end }}
{{- with include "kubevela.inheritExclude" . }}
- {{ printf "--inherit-exclude=%s" . | quote }}
{{- end }}
- "--feature-gates=EnableCueValidation={{ dig "enableCueValidation" false .Values.featureGates }}"
- "--feature-gates=ValidateResourcesExist={{ dig "validateResourcesExist" false .Values.featureGates }}"
- "--feature-gates=EnableApplicationScopedPolicies={{ dig "enableApplicationScopedPolicies" false .Values.featureGates }}"
- "--feature-gates=EnableGlobalPolicies={{ dig "enableGlobalPolicies" false .Values.featureGates }}"
- "--feature-gates=EnableWorkflowRun={{ dig "enableWorkflowRun" false .Values.featureGates }}"
{{- if (.Values.multicluster | default dict).enabled }}
- "--enable-cluster-gateway"
{{- end }}
{{- if .Values.sharding.enabled }}
- "--enable-sharding"
{{- with .Values.sharding.schedulableShards }}
- "--schedulable-shards={{ . }}"
{{- end }}
- "--feature-gates=ValidateComponentWhenSharding={{ dig "validateComponentWhenSharding" false .Values.featureGates }}"
- "--feature-gates=DisableWebhookAutoSchedule={{ dig "disableWebhookAutoSchedule" false .Values.featureGates }}"
{{- end }}
{{- if .Values.logDebug }}
- "--log-debug=true"
{{- end }}
{{- if .Values.devLogs }}
- "--dev-logs=true"
{{- end }}
{{- end -}}

{{/* Pod Security "restricted", for both Pods; the chart's own values win. */}}
{{- define "kubevela.podSecurityContext" -}}
{{- $defaults := dict "runAsNonRoot" true "runAsUser" 65532 "runAsGroup" 65532 "fsGroup" 65532 "seccompProfile" (dict "type" "RuntimeDefault") -}}
{{- mergeOverwrite $defaults (deepCopy (.Values.podSecurityContext | default dict)) | toYaml -}}
{{- end -}}

{{- define "kubevela.securityContext" -}}
{{- $defaults := dict "allowPrivilegeEscalation" false "readOnlyRootFilesystem" true "capabilities" (dict "drop" (list "ALL")) -}}
{{- mergeOverwrite $defaults (deepCopy (.Values.securityContext | default dict)) | toYaml -}}
{{- end -}}

{{/* "true" where the API server has ValidatingAdmissionPolicies */}}
{{- define "kubevela.hasAdmissionPolicies" -}}
{{- or (.Capabilities.APIVersions.Has "admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy") (semverCompare ">=1.30-0" .Capabilities.KubeVersion.Version) -}}
{{- end -}}

{{/* The priority class of a Pod: the one it names, else the chart's own. dict: root, name */}}
{{- define "kubevela.priorityClassName" -}}
{{- if .name -}}
{{- .name -}}
{{- else if dig "create" true (.root.Values.priorityClass | default dict) -}}
{{- include "kubevela.fullname" .root -}}
{{- end -}}
{{- end -}}

{{/*
The allocator keeps what is used and no more: without huge pages and with freed pages given back at once both programs
need about half the memory and no more CPU time.
*/}}
{{- define "kubevela.allocatorEnv" -}}
- name: MIMALLOC_ALLOW_THP
  value: "0"
- name: MIMALLOC_PURGE_DELAY
  value: "0"
{{- end }}
