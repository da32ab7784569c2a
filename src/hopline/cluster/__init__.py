"""How nodes find each other: rendezvous, discovery, health, the leader's lease. State machines without sockets."""

from hopline.cluster.consensus_messages import SynodMessage, from_message, to_message
from hopline.cluster.lease import Lease, LeaseSettings
from hopline.cluster.lease_keeper import LeaseKeeper
from hopline.cluster.member import Member, Traffic
from hopline.cluster.membership import Membership
from hopline.cluster.partner import Listen, Partner
from hopline.cluster.relay import Publication, Relay, RelaySettings, RelayStatistics, RelayStep
from hopline.cluster.rendezvous import RendezvousAddress, Standing, standing
from hopline.cluster.service import CONTROL, ping, said_by
from hopline.cluster.settings import ClusterSettings
from hopline.cluster.synod import Reconnect, SynodHealth, SynodHeartbeat, SynodSettings

__all__ = [
    "CONTROL",
    "ClusterSettings",
    "Lease",
    "LeaseKeeper",
    "LeaseSettings",
    "Listen",
    "Member",
    "Membership",
    "Partner",
    "Publication",
    "Reconnect",
    "Relay",
    "RelaySettings",
    "RelayStatistics",
    "RelayStep",
    "RendezvousAddress",
    "Standing",
    "SynodHealth",
    "SynodHeartbeat",
    "SynodMessage",
    "SynodSettings",
    "Traffic",
    "from_message",
    "ping",
    "said_by",
    "standing",
    "to_message",
]
