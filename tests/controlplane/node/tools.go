//go:build tools

// Package node pins the programs of a real node. They are a module of their own so that a change
// here does not build the control plane again.
package node

import (
	_ "k8s.io/kubernetes/cmd/kube-proxy"
	_ "k8s.io/kubernetes/cmd/kubectl"
	_ "k8s.io/kubernetes/cmd/kubelet"
)
