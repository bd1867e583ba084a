"""Adapters to what other people made; each is imported by itself, and needs the extra of its name.

- `eagerstream.integrations.otel`: traces and metrics by OpenTelemetry (extra `otel`).
"""
