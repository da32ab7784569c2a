"""What observes a node: counters, capture, OpenTelemetry."""
