"""The router of a node: who gets a message, and where messages wait."""
