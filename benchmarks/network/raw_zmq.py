"""The floor: the frames of a Hopline request and of its answer, over the same sockets, by pyzmq and nothing else.

The frames are made once, and nobody reads them. As between two nodes, each side sends through a ROUTER that connects
and receives through a ROUTER that binds and has an identity; each direction has its own connection. Both sides wait in
`recv`, which makes no system call while messages are there; to take in up to 200 messages before the first is answered
was not faster, nor was `recv_multipart(copy=False)`.

It comes in two ways. One is what anyone would write, with `send_multipart` and `recv_multipart`. The other is all that
we know about pyzmq: its C methods, without the Python ones on top, and frames that say themselves whether more follow.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter, sleep

import zmq

from benchmarks.network.contender import Addresses, Channel, Options, check
from benchmarks.network.measuring import carry_out_orders
from hopline import Message, MessageIdentifier, WireFormat
from hopline.message import EXCEPTION, RoutingEntry, new_flow_id, new_hub_identity, new_node_identity
from hopline.transport import SocketSettings
from hopline.wire import encode

PLAIN, TUNED = "plain", "tuned"
SETTINGS = SocketSettings()
HOW_MANY = b"how many"
READY = b"ready"
CONTROL_FRAMES = 3  # no message has so few
BODY = 2  # where it is in a message that has one
LIFETIME = 300_000_000  # ticks: half a minute
Receive = Callable[[], list[bytes]]
Send = Callable[[list[bytes]], object]
ASK, TOLD = MessageIdentifier(b"Ask"), MessageIdentifier(b"Told")


# -- frames ----------------------------------------------------------------------------------------------------------


def request(client: Sockets, server: bytes, wire_format: WireFormat, body: bytes) -> list[bytes]:
    """Give the frames of a request as they leave a node: two callbacks, one router passed."""
    return encode(
        Message(
            ASK.identity,
            bodies=(body,),
            correlation_id=new_flow_id(),
            ttl_ticks=LIFETIME,
            hops=1,
            callback_point=(TOLD, EXCEPTION),
            callback_key=1,
            callback_receiver_identity=new_hub_identity(),
            callback_receiver_node_identity=client.identity,
            socket_identity=server,
            routing=(RoutingEntry(client.uri, client.identity),),
        ),
        wire_format,
    )


def answer(server: Sockets, client: bytes, uri: str, wire_format: WireFormat) -> list[bytes]:
    """Give the frames of an answer as they leave a node: addressed to the hub, with both routers."""
    hub = new_hub_identity()
    return encode(
        Message(
            TOLD.identity,
            correlation_id=new_flow_id(),
            hops=1,
            receiver_identity=hub,
            receiver_node_identity=client,
            callback_point=(TOLD, EXCEPTION),
            callback_key=1,
            callback_receiver_identity=hub,
            callback_receiver_node_identity=client,
            socket_identity=client,
            routing=(RoutingEntry(uri, client), RoutingEntry(server.uri, server.identity)),
        ),
        wire_format,
    )


# -- roles -----------------------------------------------------------------------------------------------------------


class Sockets:
    """What one side has: where it is reached, and how it reaches the other."""

    def __init__(self) -> None:
        context: zmq.Context[zmq.Socket[bytes]] = zmq.Context.instance()
        self.identity = new_node_identity()
        self.frontend = context.socket(zmq.ROUTER)
        self.backend = context.socket(zmq.ROUTER)
        for socket in (self.frontend, self.backend):
            socket.linger = 0
            socket.sndhwm = SETTINGS.send_high_water
            socket.rcvhwm = SETTINGS.receive_high_water
            socket.set(zmq.ROUTER_MANDATORY, 1)
        self.frontend.set(zmq.ROUTING_ID, self.identity)
        self.frontend.bind("tcp://127.0.0.1:*")
        self.uri = self.frontend.get_string(zmq.LAST_ENDPOINT)

    @property
    def address(self) -> str:
        """Who and where this is."""
        return f"{self.identity.decode()} {self.uri}"

    def connect(self, address: str) -> tuple[bytes, str]:
        """Reach the other, from now on."""
        identity, uri = address.split()
        self.backend.connect(uri)
        return identity.encode(), uri

    def say(self, peer: bytes, what: bytes) -> None:
        """Send something that is no message, when the peer has shaken hands."""
        while True:
            try:
                self.backend.send_multipart([peer, b"", what])
            except zmq.ZMQError as error:
                if error.errno != zmq.EHOSTUNREACH:
                    raise
                sleep(0.001)
            else:
                return

    def hear(self) -> bytes:
        """Wait for that."""
        frames: list[bytes] = self.frontend.recv_multipart()
        return frames[BODY]

    def way(self, way: str) -> tuple[Receive, Send]:
        """Give the functions that receive and send a message."""
        if way == PLAIN:
            return self.frontend.recv_multipart, self.backend.send_multipart
        frontend, backend = self.frontend, self.backend
        receive_frame, send_frame = zmq.backend.Socket.recv, zmq.backend.Socket.send
        now, more_follow = 0, int(zmq.SNDMORE)

        def receive() -> list[bytes]:
            frames = [receive_frame(frontend, now)]  # the sender's identity, which more frames always follow
            is_last = False
            while not is_last:
                frame = receive_frame(frontend, now, False)
                frames.append(frame.bytes)
                is_last = not frame.more
            return frames

        def send(frames: list[bytes]) -> None:
            for frame in frames[:-1]:
                send_frame(backend, frame, more_follow)
            send_frame(backend, frames[-1], now)

        return receive, send


def server(channel: Channel, addresses: Addresses, options: Options) -> None:  # noqa: ARG001 - of the first role
    """Answer every request with its body, or count messages until somebody asks how many there were."""
    own = Sockets()
    channel.send(own.address)
    client, uri = own.connect(own.hear().decode())
    own.say(client, READY)
    frames = answer(own, client, uri, WireFormat[options["wire_format"]])
    receive, send = own.way(options["way"])
    while True:
        received = receive()
        if len(received) == CONTROL_FRAMES:
            count = 0
            while len(receive()) != CONTROL_FRAMES:
                count += 1
            own.say(client, b"%d" % count)
        else:
            frames[BODY] = received[BODY]
            send(frames)


def client(channel: Channel, addresses: Addresses, options: Options) -> None:
    """Ask, and let the answers be."""
    own = Sockets()
    server, _ = own.connect(addresses["server"])
    own.say(server, own.address.encode())
    check(own.hear() == READY, True, "servers are ready")
    channel.send(own.address)
    carry_out_orders(channel, RawClient(own, server, options))


class RawClient:
    """Sends the frames of a request, and takes in those of the answer."""

    def __init__(self, own: Sockets, server: bytes, options: Options) -> None:
        self._own = own
        self._server = server
        self._wire_format = WireFormat[options["wire_format"]]
        self._receive, self._send = own.way(options["way"])

    def _request(self, body: bytes) -> list[bytes]:
        return request(self._own, self._server, self._wire_format, body)

    def sequential(self, body: bytes, seconds: float) -> list[float]:
        """Send, then receive."""
        send, receive, frames = self._send, self._receive, self._request(body)
        latencies = []
        asked = perf_counter()
        until = asked + seconds
        while asked < until:
            send(frames)
            received = receive()
            latencies.append(perf_counter() - asked)
            check(len(received[BODY]), len(body), "bytes came back")
            asked = perf_counter()
        return latencies

    def pipelined(self, body: bytes, seconds: float, in_flight: int) -> tuple[int, float]:
        """Send the first, then one for each answer."""
        send, receive, frames = self._send, self._receive, self._request(body)
        started = perf_counter()
        until = started + seconds
        for _ in range(in_flight):
            send(frames)
        answered = 0
        while perf_counter() < until:
            receive()
            send(frames)
            answered += 1
        for _ in range(in_flight):
            receive()
        return answered + in_flight, perf_counter() - started

    def one_way(self, body: bytes, seconds: float) -> tuple[int, float]:
        """Send, and ask how many came."""
        send, frames = self._send, self._request(body)
        self._own.say(self._server, HOW_MANY)
        started = perf_counter()
        until = started + seconds
        sent = 0
        while perf_counter() < until:
            send(frames)
            sent += 1
        self._own.say(self._server, HOW_MANY)
        check(int(self._own.hear()), sent, "messages arrived")
        return sent, perf_counter() - started
