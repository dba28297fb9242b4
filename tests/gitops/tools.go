//go:build tools

// Package gitops pins the GitOps tools that integration tests run against.
package gitops

import (
	_ "github.com/fluxcd/kustomize-controller"
)
