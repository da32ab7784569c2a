"""A node's part in a network: its settings, its sockets, its rendezvous server."""
