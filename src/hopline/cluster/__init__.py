"""How nodes find each other: rendezvous, discovery, health, the leader's lease. State machines without sockets."""

from hopline.cluster.membership import CONTROL, Member, Membership, ping
from hopline.cluster.settings import ClusterSettings, RendezvousAddress

__all__ = ["CONTROL", "ClusterSettings", "Member", "Membership", "RendezvousAddress", "ping"]
