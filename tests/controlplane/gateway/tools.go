//go:build tools

// Package gateway pins KubeVela's cluster-gateway, with which ours is compared. It is a module of its own: its Kubernetes libraries
// are older than the control plane's.
package gateway

import _ "github.com/oam-dev/cluster-gateway/cmd/apiserver"
