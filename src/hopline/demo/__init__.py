"""The demonstration: a shop on three nodes, failures and attacks in it, and what the pipeline finds out about them."""
