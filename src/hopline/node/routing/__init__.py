"""The router of a node, its directory of receivers, and its queues."""
