"""Drawings that no chart library has: where everything goes, computed here; the templates draw it as SVG."""
