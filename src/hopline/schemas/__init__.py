"""Schemas of payloads: shapes and fingerprints, JSON Schemas, and the AsyncAPI document of an application."""
