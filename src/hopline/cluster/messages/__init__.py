"""The messages that nodes and rendezvous servers exchange, and the formats they are written in."""
