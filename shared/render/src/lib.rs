//! Definitions, parameters and context to Kubernetes objects.
