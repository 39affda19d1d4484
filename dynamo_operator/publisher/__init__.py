"""The sidecar that publishes candidates."""
