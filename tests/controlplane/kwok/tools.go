//go:build tools

// Package kwok pins the simulated nodes apart from the control plane: kwok's Kubernetes libraries
// are newer than those of the API server, and one module can hold only one version of each.
package kwok

import _ "sigs.k8s.io/kwok/cmd/kwok"
