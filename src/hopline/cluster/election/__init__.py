"""How rendezvous servers elect their leader: by a lease that a quorum of them grants."""
