"""Hopline on real sockets, beside peers that share no code with it."""
