//! The process: flags, logs, metrics, health, TLS, shutdown.
