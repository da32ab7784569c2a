"""How rendezvous servers elect their leader: a lease, by ballots of a quorum."""
