"""The sockets and timers of a running rendezvous server, around the decisions of relay, election and partners.

Every event (a message of a node, of a partner network or of another server, or a timer) is passed to the part that
decides, and the steps that it returns are carried out. One timer serves all parts: it is set to the earliest time at
which any of them has something to do.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Iterable
from random import Random

from hopline.cluster import (
    Leadership,
    LeaseKeeper,
    Reconnect,
    RendezvousAddress,
    SynodHealth,
    SynodHeartbeat,
    SynodMessage,
    from_message,
    leadership,
    to_message,
)
from hopline.cluster.election.lease import TICKS_PER_SECOND
from hopline.message import PayloadError, get_logger
from hopline.rendezvous.address import PARTNER_STEP, UNICAST_STEP, address_above
from hopline.rendezvous.clocks import Clocks
from hopline.rendezvous.held_messages import Publication
from hopline.rendezvous.partner import Listen, Partner
from hopline.rendezvous.relay import Relay, RelayStep
from hopline.rendezvous.settings import PartnerNetwork, RendezvousSettings
from hopline.transport import Sender, Subscriber, Transport, advertised, open_transport
from hopline.wire import RemoteError, decode, encode

log = get_logger("hopline.rendezvous")

_LONGEST_SLEEP = 0.5  # seconds
_PUBLISHER_CAPACITY = 10_000  # messages that wait for one subscriber
_CLOSE_LINGER = 0.25  # seconds for the last published messages to leave


class ServerRuntime:
    """One run of a server: call `open`, and `close` at the end."""

    address: RendezvousAddress
    relay: Relay
    keeper: LeaseKeeper
    _health: SynodHealth
    _transport: Transport
    _broadcast: Sender
    _partner_broadcast: Sender
    _synod_subscriber: Subscriber

    def __init__(self, settings: RendezvousSettings, clocks: Clocks, random: Random) -> None:
        self._settings = settings
        self._utc = clocks.utc
        self._monotonic = clocks.monotonic
        self._random = random
        self._loop = asyncio.get_running_loop()
        self._closers: list[Callable[[], None]] = []
        self._synod_publisher: Sender | None = None  # None for a single server
        self._partners: list[_PartnerSubscription] = []
        self._timer: asyncio.Handle | None = None
        self._logged_leadership: Leadership | None = None
        self.refused_in_synod = 0  # messages of other servers that could not be read

    # -- sockets -------------------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Bind all sockets and start. If one cannot be bound, close the others and raise the error."""
        try:
            self._open_sockets()
            self._run_due()
        except BaseException:
            self.close()
            raise

    def _open_sockets(self) -> None:
        settings = self._settings
        self._transport = settings.transport or open_transport(settings.sockets, settings.curve)
        self._closers.append(self._transport.close)
        self._broadcast, broadcast_uri = self._publisher(settings.address, "address")
        partner_address = settings.partner_address or address_above(settings.address, broadcast_uri, PARTNER_STEP)
        self._partner_broadcast, partner_uri = self._publisher(partner_address, "partner_address")
        unicast_address = settings.unicast_address or address_above(settings.address, broadcast_uri, UNICAST_STEP)
        unicast = self._transport.listener(unicast_address, "unicast_address")
        self._closers.append(unicast.close)
        self.address = RendezvousAddress(
            advertised(broadcast_uri, settings.advertise),
            advertised(unicast.uri, settings.advertise),
            advertised(partner_uri, settings.advertise),
        )
        self.relay = Relay(settings.relay, self._monotonic())
        self._join_synod()
        self._partners = [self._subscribe_to(partner) for partner in settings.partners]
        unicast.read(self._on_node_message)

    def _publisher(self, address: str, field: str) -> tuple[Sender, str]:
        publisher, uri = self._transport.publisher(address, field, _PUBLISHER_CAPACITY)
        self._closers.append(lambda: publisher.close(_CLOSE_LINGER))
        return publisher, uri

    def _join_synod(self) -> None:
        """Open the sockets between the servers, if there are several, and prepare the election."""
        settings = self._settings
        members = list(settings.synod) or [settings.synod_address or self.address.unicast_uri]
        uri = settings.synod_address or members[0]
        identity = str(uuid.UUID(int=self._random.getrandbits(128), version=4)).encode()
        if len(members) > 1:
            self._synod_publisher, _ = self._publisher(uri, "synod_address")
            self._synod_subscriber = self._transport.subscriber(self._on_synod_message)
            self._closers.append(self._synod_subscriber.close)
            for member in members:
                self._synod_subscriber.connect(member)
        payload = self.address.payload()
        self.keeper = LeaseKeeper(identity, uri, members, payload, settings.lease, self._random, self._utc())
        self._health = SynodHealth(uri, members, settings.synod_health, self._monotonic())

    def _subscribe_to(self, network: PartnerNetwork) -> _PartnerSubscription:
        partner = Partner(
            network.network_id, network.cluster, network.allowed_domains, network.silence, self._monotonic()
        )
        subscriber = self._transport.subscriber(lambda frames: self._on_partner_message(frames, partner))
        subscriber.connect(partner.uri)
        self._closers.append(subscriber.close)
        return _PartnerSubscription(partner, subscriber)

    def close(self) -> None:
        """Close what is open, in the opposite order."""
        if self._timer is not None:
            self._timer.cancel()
        while self._closers:
            close = self._closers.pop()
            close()

    # -- events --------------------------------------------------------------------------------------------------------

    def leadership(self) -> Leadership:
        """Return which server leads, as far as this one knows."""
        return leadership(self.keeper, self._utc())

    def _on_node_message(self, frames: list[bytes]) -> None:
        self._carry_out(self.relay.on_unicast(frames, self.leadership(), self._monotonic()))
        if self.relay.owes_answer:
            self._run_after(self._seconds_until_due())

    def _on_partner_message(self, frames: list[bytes], partner: Partner) -> None:
        self._carry_out(self.relay.on_partner(frames, partner, self.leadership(), self._monotonic()))

    def _on_synod_message(self, frames: list[bytes]) -> None:
        try:
            message = from_message(decode(frames))
        except (RemoteError, PayloadError):
            self.refused_in_synod += 1
            return
        if isinstance(message, SynodHeartbeat):
            self._health.receive(message, self._monotonic())
        else:
            self._publish_to_synod(self.keeper.receive(message, self._utc()))
        self._run_soon()

    def _carry_out(self, steps: Iterable[RelayStep]) -> None:
        for step in steps:
            if isinstance(step, Publication):
                self._broadcast.send(step.frames)
                if step.to_partners:
                    self._partner_broadcast.send(step.frames)
            elif isinstance(step, Listen):
                for subscription in self._partners:
                    subscription.apply(step)

    def _publish_to_synod(self, messages: Iterable[SynodMessage]) -> None:
        """Publish to all members, this one included. A single server processes its messages at once."""
        for message in messages:
            if self._synod_publisher is not None:
                frames = encode(to_message(message), self._settings.relay.wire_format)
                self._synod_publisher.send(frames)
            elif not isinstance(message, SynodHeartbeat):
                self._publish_to_synod(self.keeper.receive(message, self._utc()))

    # -- time ----------------------------------------------------------------------------------------------------------

    def _run_soon(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_soon(self._run_due)

    def _run_after(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(seconds, self._run_due)

    def _run_due(self) -> None:
        """Do what is due, and set the timer. It is set at the beginning too, in case anything raises."""
        self._run_after(_LONGEST_SLEEP)
        now = self._monotonic()
        self._publish_to_synod(self.keeper.tick(self._utc()))
        for step in self._health.tick(now):
            if isinstance(step, Reconnect):
                self._reconnect(step.uri)
            else:
                self._publish_to_synod([step])
        for subscription in self._partners:
            subscription.apply(subscription.partner.tick(now))
        current = self.leadership()
        self._log_change(current)
        self._carry_out(self.relay.tick(current, now))
        self._run_after(self._seconds_until_due())

    def _log_change(self, current: Leadership) -> None:
        if current == self._logged_leadership:
            return
        self._logged_leadership = current
        if current.leads:
            log.info("this server leads")
        elif current.leader is not None:
            log.info("this server follows %s", current.leader)
        else:
            log.info("no server is known to lead")

    def _seconds_until_due(self) -> float:
        now, utc = self._monotonic(), self._utc()
        waits = [self.relay.next_tick - now, self.keeper.next_tick - utc]
        health_at = self._health.next_tick
        if health_at is not None:
            waits.append(health_at - now)
        lease = self.keeper.lease(utc)
        if lease is not None:
            waits.append(lease.expires_at - utc)  # the leadership changes then without any message
        seconds = min(waits) / TICKS_PER_SECOND
        return min(_LONGEST_SLEEP, max(0.0, seconds))

    def _reconnect(self, uri: str) -> None:
        log.warning("the member %s of the synod is silent, connecting again", uri)
        self._synod_subscriber.disconnect(uri)
        self._synod_subscriber.connect(uri)


class _PartnerSubscription:
    """The subscription to one server of a partner network."""

    def __init__(self, partner: Partner, subscriber: Subscriber) -> None:
        self.partner = partner
        self._uri = partner.uri
        self._subscriber = subscriber

    def apply(self, listen: Listen | None) -> None:
        """Subscribe to another server, if the step is for this partner."""
        if listen is not None and listen.network_id == self.partner.network_id:
            self._subscriber.disconnect(self._uri)
            self._subscriber.connect(listen.uri)
            self._uri = listen.uri
