//go:build tools

// Package controlplane pins the programs that the integration tests run against. `cargo xtask`
// builds them with `go build` from this module, so one go.sum names every byte of them.
package controlplane

import (
	_ "go.etcd.io/etcd/server/v3"
	_ "helm.sh/helm/v3/cmd/helm"
	_ "k8s.io/kubernetes/cmd/kube-apiserver"
	_ "k8s.io/kubernetes/cmd/kube-controller-manager"
	_ "k8s.io/kubernetes/cmd/kube-scheduler"
)
