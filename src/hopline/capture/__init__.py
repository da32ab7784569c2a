"""Capture: record a node's traffic into Parquet segments, recover them after a crash, and replay them."""
