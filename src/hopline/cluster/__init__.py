"""How nodes find each other: rendezvous, discovery, health, the leader's lease. State machines without sockets."""

from hopline.cluster.election.leadership import Leadership, leadership
from hopline.cluster.election.lease import Lease, LeaseSettings
from hopline.cluster.election.lease_keeper import LeaseKeeper
from hopline.cluster.election.synod import Reconnect, SynodHealth, SynodHeartbeat, SynodSettings
from hopline.cluster.membership.member import Member, Traffic
from hopline.cluster.membership.membership import Membership
from hopline.cluster.messages.consensus import SynodMessage, from_message, to_message
from hopline.cluster.messages.service import CONTROL, ping, sender_of
from hopline.cluster.rendezvous_address import RendezvousAddress
from hopline.cluster.settings import ClusterSettings

__all__ = [
    "CONTROL",
    "ClusterSettings",
    "Leadership",
    "Lease",
    "LeaseKeeper",
    "LeaseSettings",
    "Member",
    "Membership",
    "Reconnect",
    "RendezvousAddress",
    "SynodHealth",
    "SynodHeartbeat",
    "SynodMessage",
    "SynodSettings",
    "Traffic",
    "from_message",
    "leadership",
    "ping",
    "sender_of",
    "to_message",
]
