"""The demonstration: a little shop on three nodes, what goes wrong in it, and what the pipeline finds out."""
