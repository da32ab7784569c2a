"""A rendezvous server: the sockets and clocks around what `hopline.cluster` decides."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from random import Random
from types import TracebackType
from typing import Self

import msgspec

from hopline.cluster import (
    Lease,
    LeaseKeeper,
    LeaseSettings,
    Listen,
    Partner,
    Publication,
    Reconnect,
    Relay,
    RelaySettings,
    RelayStatistics,
    RelayStep,
    RendezvousAddress,
    Standing,
    SynodHealth,
    SynodHeartbeat,
    SynodMessage,
    SynodSettings,
    from_message,
    standing,
    to_message,
)
from hopline.message import LocalError, PayloadError, get_logger
from hopline.node.network import DEFAULT_RENDEZVOUS, PARTNER_STEP, UNICAST_STEP, refuse_open_door
from hopline.security import NoSecurity
from hopline.transport import (
    Curve,
    Sender,
    SocketSettings,
    Subscriber,
    Transport,
    advertised,
    one_place,
    open_transport,
    parse,
)
from hopline.wire import RemoteError, decode, encode

log = get_logger("hopline.rendezvous")

TICKS_PER_SECOND = 10_000_000
_NET_EPOCH = 621_355_968_000_000_000  # 1970 in ticks of .NET
_LONGEST_NAP = 0.5
_KEPT = 10_000
_LAST_WORDS = 0.25  # seconds that what was published last may take to leave


class PartnerNetwork(msgspec.Struct, frozen=True, kw_only=True):
    """Another network whose routes are let in: where its servers publish for partners, and which domains concern us."""

    network_id: str  # what it is called here
    cluster: Sequence[str]  # where its servers publish for partners
    allowed_domains: Sequence[str] = ("*",)  # whose routes are let in; * is all
    silence: float = 15.0  # seconds without a sign of life, before another of its servers is listened to


class RendezvousSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Where a server listens and publishes, and with whom it shares the leadership."""

    address: str = DEFAULT_RENDEZVOUS  # where it publishes
    unicast_address: str | None = None  # where nodes send to; by default ten ports above
    partner_address: str | None = None  # where it publishes for partner networks; by default 110 ports above
    advertise: str | None = None  # the host name or address that nodes know this machine by
    synod_address: str | None = None  # which of the members this server is
    synod: Sequence[str] = ()  # the addresses at which the servers talk to each other, this one's included
    open_without_keys: bool = False  # reachable from other machines without encryption: everybody around is trusted
    relay: RelaySettings = msgspec.field(default_factory=RelaySettings)
    lease: LeaseSettings = msgspec.field(default_factory=LeaseSettings)
    synod_health: SynodSettings = msgspec.field(default_factory=SynodSettings)
    partners: Sequence[PartnerNetwork] = ()  # other networks whose routes are let in
    sockets: SocketSettings = msgspec.field(default_factory=SocketSettings)
    curve: Curve | None = None
    transport: Transport | None = None  # what carries it all; chosen by itself, unless one is given

    def __post_init__(self) -> None:
        for field in ("address", "unicast_address", "partner_address", "synod_address"):
            address = getattr(self, field)
            if address is not None:
                refuse_open_door(address, NoSecurity(), self.curve, is_open=self.open_without_keys, field=field)
        if self.synod_address is not None and not self.synod:
            # It would lead alone, and so would each of the others.
            raise LocalError("synod", "all members, this server included, where there is a synod_address", None)
        if self.synod and self.synod_address not in self.synod:
            raise LocalError("synod_address", "one of the members in synod", self.synod_address)
        for member in self.synod:
            one_place(member, "synod")
        for partner in self.partners:
            for uri in partner.cluster:
                one_place(uri, "partners")


def utc_ticks() -> int:
    """Tell the time as leases have it."""
    return time.time_ns() // 100 + _NET_EPOCH


def _steady_ticks() -> int:
    return time.monotonic_ns() // 100


class Clocks(msgspec.Struct, frozen=True):
    """The clocks of a server, in ticks of 100 ns."""

    utc: Callable[[], int] = utc_ticks  # within the drift of the other servers' clocks
    steady: Callable[[], int] = _steady_ticks  # never goes back


class RendezvousServer:
    """Use it as ``async with RendezvousServer(settings) as server``; nodes are given `server.address`."""

    def __init__(
        self, settings: RendezvousSettings | None = None, *, clocks: Clocks | None = None, random: Random | None = None
    ) -> None:
        self.settings = settings or RendezvousSettings()
        self._clocks = clocks or Clocks()
        self._random = random or Random()  # noqa: S311 - it makes duels end, and a new identity in each life
        self._running: _Running | None = None

    async def start(self) -> None:
        """Bind, and take part in the election; alone, the server leads at once."""
        if self._running is None:
            self._running = _Running(self.settings, self._clocks, self._random)

    async def stop(self) -> None:
        """Close everything; if this server led, another one takes over when its lease is over."""
        running, self._running = self._running, None
        if running is not None:
            running.close()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    @property
    def is_running(self) -> bool:
        """Tell whether the server was started and not stopped."""
        return self._running is not None

    @property
    def _now_running(self) -> _Running:
        if self._running is None:
            raise LocalError(
                "rendezvous server", "one that runs: use `async with`, or await start()", "one that is not"
            )
        return self._running

    @property
    def address(self) -> RendezvousAddress:
        """Where nodes find this server."""
        return self._now_running.address

    @property
    def is_leader(self) -> bool:
        """Tell whether this server leads."""
        return self._now_running.standing().leads

    @property
    def lease(self) -> Lease | None:
        """The lease that is valid now, whoever's it is."""
        return self._now_running.keeper.lease(self._clocks.utc())

    @property
    def statistics(self) -> RelayStatistics:
        """What became of everything that nodes sent."""
        return self._now_running.relay.statistics

    @property
    def held(self) -> int:
        """How many messages wait for a leader."""
        return self._now_running.relay.held


class _Running:
    """What exists only while the server runs."""

    def __init__(self, settings: RendezvousSettings, clocks: Clocks, random: Random) -> None:
        self._settings = settings
        self._utc = clocks.utc
        self._steady = clocks.steady
        self._random = random
        self._loop = asyncio.get_running_loop()
        self._closing: list[Callable[[], None]] = []
        self._timer: asyncio.Handle | None = None
        self._was: Standing | None = None
        self.refused_in_synod = 0
        try:
            self._open(settings)
            self._look()
        except BaseException:
            self.close()
            raise

    # -- sockets -------------------------------------------------------------------------------------------------------

    def _open(self, settings: RendezvousSettings) -> None:
        transport = self._transport = settings.transport or open_transport(settings.sockets, settings.curve)
        self._closing.append(transport.close)
        self._broadcast, broadcast_uri = self._publisher(settings.address, "address")
        self._partner_broadcast, partner_uri = self._publisher(
            settings.partner_address or _above(settings.address, broadcast_uri, PARTNER_STEP), "partner_address"
        )
        unicast_address = settings.unicast_address or _above(settings.address, broadcast_uri, UNICAST_STEP)
        unicast = transport.listener(unicast_address, "unicast_address")
        self._closing.append(unicast.close)
        self.address = RendezvousAddress(
            advertised(broadcast_uri, settings.advertise),
            advertised(unicast.uri, settings.advertise),
            advertised(partner_uri, settings.advertise),
        )
        self.relay = Relay(settings.relay, self._steady())
        self._open_synod(settings)
        self._partners = [self._listen_to(partner) for partner in settings.partners]
        unicast.read(self._from_node)

    def _publisher(self, address: str, field: str) -> tuple[Sender, str]:
        publisher, uri = self._transport.publisher(address, field, _KEPT)
        self._closing.append(lambda: publisher.close(_LAST_WORDS))
        return publisher, uri

    def _open_synod(self, settings: RendezvousSettings) -> None:
        members = list(settings.synod) or [settings.synod_address or self.address.unicast_uri]
        uri = settings.synod_address or members[0]
        identity = str(uuid.UUID(int=self._random.getrandbits(128), version=4)).encode()
        self._synod: Sender | None = None
        if len(members) > 1:
            self._synod, _ = self._publisher(uri, "synod_address")
            self._synod_inlet = self._transport.subscriber(self._from_synod)
            self._closing.append(self._synod_inlet.close)
            for member in members:
                self._synod_inlet.connect(member)
        payload = self.address.payload()
        self.keeper = LeaseKeeper(identity, uri, members, payload, settings.lease, self._random, self._utc())
        self._health = SynodHealth(uri, members, settings.synod_health, self._steady())

    def _listen_to(self, network: PartnerNetwork) -> _PartnerListener:
        partner = Partner(network.network_id, network.cluster, network.allowed_domains, network.silence, self._steady())
        inlet = self._transport.subscriber(lambda frames: self._from_partner(frames, partner))
        inlet.connect(partner.uri)
        self._closing.append(inlet.close)
        return _PartnerListener(partner, inlet)

    def close(self) -> None:
        """Close what is open, in the opposite order."""
        if self._timer is not None:
            self._timer.cancel()
        while self._closing:
            self._closing.pop()()

    # -- what comes in -------------------------------------------------------------------------------------------------

    def standing(self) -> Standing:
        """Tell where this server stands."""
        return standing(self.keeper, self._utc())

    def _from_node(self, frames: list[bytes]) -> None:
        self._act(self.relay.on_unicast(frames, self.standing(), self._steady()))

    def _from_partner(self, frames: list[bytes], partner: Partner) -> None:
        self._act(self.relay.on_partner(frames, partner, self.standing(), self._steady()))

    def _from_synod(self, frames: list[bytes]) -> None:
        try:
            message = from_message(decode(frames))
        except (RemoteError, PayloadError):
            self.refused_in_synod += 1
            return
        if isinstance(message, SynodHeartbeat):
            self._health.hear(message, self._steady())
        else:
            self._say(self.keeper.receive(message, self._utc()))
        self._look_soon()

    # -- what goes out -------------------------------------------------------------------------------------------------

    def _act(self, steps: Iterable[RelayStep]) -> None:
        for step in steps:
            if isinstance(step, Publication):
                self._broadcast.send(step.frames)
                if step.to_partners:
                    self._partner_broadcast.send(step.frames)
            elif isinstance(step, Listen):
                for listener in self._partners:
                    listener.move(step)

    def _say(self, messages: Iterable[SynodMessage]) -> None:
        """Publish to all members. Alone, there is nobody but this one to hear it."""
        for message in messages:
            if self._synod is not None:
                self._synod.send(encode(to_message(message), self._settings.relay.wire_format))
            elif not isinstance(message, SynodHeartbeat):
                self._say(self.keeper.receive(message, self._utc()))

    # -- time ----------------------------------------------------------------------------------------------------------

    def _look_soon(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_soon(self._look)

    def _look(self) -> None:
        """Do what is due, and come back when something will be; whatever goes wrong, come back."""
        self._look_after(_LONGEST_NAP)
        steady = self._steady()
        self._say(self.keeper.tick(self._utc()))
        for step in self._health.tick(steady):
            if isinstance(step, Reconnect):
                self._reconnect(step.uri)
            else:
                self._say([step])
        for listener in self._partners:
            listener.move(listener.partner.tick(steady))
        where = self.standing()
        if where != self._was:
            self._was = where
            follows = "no server is known to lead" if where.leader is None else f"this server follows {where.leader}"
            log.info("this server leads" if where.leads else follows)
        self._act(self.relay.tick(where, steady))
        self._look_after(self._nap())

    def _look_after(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(seconds, self._look)

    def _nap(self) -> float:
        steady, utc = self._steady(), self._utc()
        due = [self.relay.next_tick - steady, self.keeper.next_tick - utc]
        if (next_heartbeat := self._health.next_tick) is not None:
            due.append(next_heartbeat - steady)
        lease = self.keeper.lease(utc)
        if lease is not None:
            due.append(lease.expires_at - utc)  # the standing changes then by itself
        return min(_LONGEST_NAP, max(0.0, min(due) / TICKS_PER_SECOND))

    def _reconnect(self, uri: str) -> None:
        log.warning("the member %s of the synod is silent, connecting again", uri)
        self._synod_inlet.disconnect(uri)
        self._synod_inlet.connect(uri)


class _PartnerListener:
    """The subscription to one server of a partner network."""

    def __init__(self, partner: Partner, inlet: Subscriber) -> None:
        self.partner = partner
        self.uri = partner.uri
        self._inlet = inlet

    def move(self, listen: Listen | None) -> None:
        """Listen elsewhere, if that is what was decided, and for this partner."""
        if listen is not None and listen.network_id == self.partner.network_id:
            self._inlet.disconnect(self.uri)
            self._inlet.connect(listen.uri)
            self.uri = listen.uri


def _above(asked: str, bound: str, step: int) -> str:
    """Give the address so many ports above the one that a socket got; if that could be any, it is any other."""
    address = parse(bound)
    return f"tcp://{address.host}:{address.first_port + step if parse(asked).first_port else 0}"
