"""One TCP connection that speaks ZMTP.

Theory of operation. The socket is driven by the event loop's readers and writers and not by an asyncio transport, which
has a buffer of its own: what it holds when a connection breaks can be neither counted nor taken back.

* Writing: `send` encodes a message into a list. The list is written at the end of the turn of the loop, in one call, or
  sooner when it has grown to `WRITE_SIZE`. What the system does not take is kept as the rest; then the connection is
  *blocked*, and its handler keeps further messages to itself, unencoded, until `drained` is called.
* Counting: `written` is called with the number of messages whose last byte the system has taken. So whoever counts what
  it sent knows at any time which messages never left, also when the connection breaks.
* Reading: one call to the socket for each time that it is readable. `pause` stops it; then the system's buffers fill up
  and TCP pushes back. Messages that were cut out of the same piece wait here.
* Heartbeats: a connection on which nothing arrived for an interval is sent a PING, where the peer's version knows it.
  A connection on which nothing arrived for the timeout is closed. A peer of an older version is noticed by TCP itself.
* The end: `close` writes what is left, within its time, then waits for the peer to have read it. `abort` closes at
  once. Whoever closes hears nothing more; else `closed` is called, once. Where a write fails, because the peer is gone,
  what the peer sent before is read first: closing would discard it, and the peer's system has reported it as arrived.
"""

from __future__ import annotations

import asyncio
import math
import socket
from bisect import bisect_right
from collections import deque
from collections.abc import Callable

from hopline.message import get_logger
from hopline.transport.interface import Frames
from hopline.transport.settings import SocketSettings
from hopline.transport.tcp.closing import Farewell
from hopline.transport.tcp.sockets import bytes_unacknowledged
from hopline.zmtp import Connection as Protocol
from hopline.zmtp import Event, PeerError, Ping, Ready, Subscription, Violation, encode_into

log = get_logger("hopline.transport")

WRITE_SIZE = 256 * 1024  # bytes that are written without waiting for the end of the turn
READ_SIZE = 64 * 1024
_RECENT = 1_024  # writes whose messages are remembered until the connection breaks
MOST_READ = 4 * 1024 * 1024  # bytes that are read at once in the middle of a large frame


class Handler:
    """What a connection calls. Each method does nothing unless it is overridden."""

    def ready(self, connection: Connection, peer: Ready) -> None:
        """Note that the handshake is complete."""

    def message(self, frames: list[bytes]) -> None:
        """Take a message."""

    def subscription(self, connection: Connection, subscription: Subscription) -> None:
        """Note what the peer wants to hear."""

    def written(self, count: int) -> None:
        """Note that so many messages have left, in the order in which they were sent."""

    def drained(self) -> None:
        """Note that the connection is not blocked any more."""

    def closed(self, connection: Connection, reason: str) -> None:
        """Note that the connection is gone, and why."""


class Connection:
    """Reads and writes one connected socket, and reports to its handler."""

    def __init__(
        self,
        sock: socket.socket,
        protocol: Protocol,
        handler: Handler,
        settings: SocketSettings,
        clock: Callable[[], float],
    ) -> None:
        self._socket = sock
        self._protocol = protocol
        self._handler = handler
        self._settings = settings
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self.is_open = True
        self.is_blocked = False  # the system takes no more for now
        self.unacknowledged = 0  # once it broke: messages that left, and of which the peer's system lacks a part
        self.write_began = 0.0  # by the clock: when what was written last was about to be
        self._pieces: list[bytes] = []  # to be written in this turn
        self._size = 0  # their bytes
        self._ends: list[int] = []  # where messages end in them
        self._flush_is_due = False
        self._rest: memoryview = memoryview(b"")  # what the system did not take
        self._rest_ends: list[int] = []  # where messages end in it
        self._written = 0  # bytes, ever
        self._recent: deque[tuple[int, list[int]]] = deque(maxlen=_RECENT)  # where writes began, and messages end there
        self._is_paused = False
        self._unread: list[Event] = []  # while paused
        self._is_taking = False  # messages that were read are being handed over
        self._was_heard = True
        self._silence = 0.0
        self._time_to_live = 0.0  # that the peer asked for
        self._timer = self._loop.call_later(settings.handshake_timeout, self._shook_no_hands)
        self._loop.add_reader(sock, self._read)
        self._write_output()

    def __repr__(self) -> str:
        return f"Connection({'open' if self.is_open else 'closed'}, {len(self._ends)} messages to write)"

    # -- writing -------------------------------------------------------------------------------------------------------

    def send(self, frames: Frames) -> None:
        """Send a message, at the end of this turn of the loop at the latest."""
        self._size += encode_into(self._pieces, frames)
        self._ends.append(self._size)
        self._flush_soon()

    def send_encoded(self, data: bytes) -> None:
        """Send a message that `encode_message` has encoded for several connections."""
        self._pieces.append(data)
        self._size += len(data)
        self._ends.append(self._size)
        self._flush_soon()

    def subscribe(self, topic: bytes) -> None:
        """Ask the peer for what begins with a topic."""
        self._send_control(self._protocol.subscription(topic))

    def _send_control(self, data: bytes) -> None:
        """Send what is no message."""
        if data:
            self._pieces.append(data)
            self._size += len(data)
            self._flush_soon()

    def _write_output(self) -> None:
        """Send what the protocol has to say: its part of the handshake, or the answer to a ping."""
        output = self._protocol.take_output()
        if not self.is_blocked:  # else the peer does not read, and what it has not read is a sign of life
            self._send_control(output)

    def _flush_soon(self) -> None:
        if self._size >= WRITE_SIZE:
            self.flush()
        elif not self._flush_is_due:
            self._flush_is_due = True
            self._loop.call_soon(self._flush_turn)

    def _flush_turn(self) -> None:
        self._flush_is_due = False
        self.flush()

    def flush(self) -> None:
        """Write what was sent in this turn, as far as the system takes it."""
        if self.is_blocked or not self._pieces or not self.is_open:
            return
        self.write_began = self._clock()
        data = b"".join(self._pieces)
        ends, self._ends = self._ends, []
        self._pieces.clear()
        self._size = 0
        try:
            taken = self._socket.send(data)
        except (BlockingIOError, InterruptedError):
            taken = 0
        except OSError as error:
            self._break_after_reading(f"{error.strerror}")
            return
        if taken < len(data):
            whole = bisect_right(ends, taken)
            self._block(memoryview(data)[taken:], [end - taken for end in ends[whole:]])
            del ends[whole:]
        self._note_written(taken, ends)

    def _block(self, rest: memoryview, ends: list[int]) -> None:
        self.is_blocked = True
        self._rest = rest
        self._rest_ends = ends
        self._loop.add_writer(self._socket, self._write_rest)

    def _write_rest(self) -> None:
        self.write_began = self._clock()
        try:
            taken = self._socket.send(self._rest)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._break_after_reading(f"{error.strerror}")
            return
        self._rest = self._rest[taken:]
        whole = bisect_right(self._rest_ends, taken)
        ends = self._rest_ends[:whole]
        self._rest_ends = [end - taken for end in self._rest_ends[whole:]]
        if not self._rest:
            self.is_blocked = False
            self._loop.remove_writer(self._socket)
        self._note_written(taken, ends)
        if self.is_open and not self.is_blocked:
            self.flush()
        if self.is_open and not self.is_blocked:
            self._handler.drained()

    def _note_written(self, taken: int, ends: list[int]) -> None:
        """Note that the system took some bytes, and the messages that end in them."""
        if ends:
            self._recent.append((self._written, ends))
            self._written += taken
            self._handler.written(len(ends))
        else:
            self._written += taken

    # -- reading -------------------------------------------------------------------------------------------------------

    def pause(self) -> None:
        """Read nothing more for now."""
        if self.is_open and not self._is_paused:
            self._is_paused = True
            self._loop.remove_reader(self._socket)

    def resume(self) -> None:
        """Read again, beginning with what was received before."""
        if self.is_open and self._is_paused:
            self._is_paused = False
            self._was_heard = True
            self._loop.add_reader(self._socket, self._read)
            events, self._unread = self._unread, []
            self._hand_over(events)

    def _read(self) -> None:
        try:
            data = self._socket.recv(min(max(READ_SIZE, self._protocol.missing), MOST_READ))
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._break(f"{error.strerror}")
            return
        if not data:
            self._break("the peer closed the connection")
            return
        self._was_heard = True
        self._hand_over(self._protocol.receive(data))

    def _hand_over(self, events: list[Event]) -> None:
        self._is_taking = True
        self._take(events)
        self._is_taking = False

    def _take(self, events: list[Event]) -> None:
        take_message = self._handler.message
        for number, event in enumerate(events):
            if self._is_paused:  # by what was taken last
                self._unread = events[number:]
                return
            if isinstance(event, list):
                try:
                    take_message(event)
                except Exception:  # one message must never stop the ones behind it
                    log.exception("a message could not be taken in")
            else:
                self._take_control(event)
            if not self.is_open:
                return
        self._write_output()

    def _take_control(self, event: Event) -> None:
        if isinstance(event, Ready):
            self._write_output()
            self._timer.cancel()
            self._begin_heartbeats()
            self._handler.ready(self, event)
        elif isinstance(event, Subscription):
            self._handler.subscription(self, event)
        elif isinstance(event, Ping):
            self._heed(event.time_to_live)
        elif isinstance(event, Violation):
            self._write_output()
            self.flush()
            self._break(event.reason)
        elif isinstance(event, PeerError):
            self._break(f"the peer refused it: {event.reason!r}")

    # -- heartbeats ----------------------------------------------------------------------------------------------------

    def _shook_no_hands(self) -> None:
        self._break("the peer did not shake hands in time")

    def _begin_heartbeats(self) -> None:
        interval, timeout = self._settings.heartbeat_interval, self._settings.heartbeat_timeout
        # Whoever is never asked for a sign of life may be silent, unless it said for how long.
        timeouts = [each for each in (timeout if interval else 0.0, self._time_to_live) if each]
        # Look twice within any of them, so that the peer is asked before its time is over.
        intervals = [each for each in (interval, *(each / 2 for each in timeouts)) if each]
        self._timeout = min(timeouts, default=math.inf)
        if intervals:
            self._interval = min(intervals)
            self._timer = self._loop.call_later(self._interval, self._beat)

    def _beat(self) -> None:
        """Look whether anything arrived since the last look, and ask for a sign of life if not."""
        settings = self._settings
        self._silence = 0.0 if self._was_heard or self._is_paused else self._silence + self._interval
        self._was_heard = False
        can_answer = bool(self._protocol.ping(0.0))
        if can_answer and self._silence >= self._timeout:
            self._break(f"the peer was silent for {self._silence:g} s")
            return
        if settings.heartbeat_interval and self._silence:
            self._send_control(self._protocol.ping(settings.heartbeat_timeout))
        self._timer = self._loop.call_later(self._interval, self._beat)

    def _heed(self, time_to_live: float) -> None:
        """Close the connection if the peer is silent for as long as it said."""
        if time_to_live != self._time_to_live:
            self._time_to_live = time_to_live
            self._timer.cancel()
            self._begin_heartbeats()

    # -- the end -------------------------------------------------------------------------------------------------------

    def _break(self, reason: str) -> None:
        """Close at once, and report it."""
        if self.is_open:
            self.unacknowledged = self.count_unacknowledged()
            self.abort()
            log.debug("a connection ended: %s", reason)
            self._handler.closed(self, reason)

    def _break_after_reading(self, reason: str) -> None:
        """Take in what has arrived, then close: the peer is gone, so no more follows."""
        self.is_blocked = True  # nothing can be written, neither answers to what is read
        # While messages are handed over, those behind them would overtake the rest.
        while self.is_open and not self._is_paused and not self._is_taking:
            try:
                data = self._socket.recv(READ_SIZE)
            except OSError:
                break
            if not data:
                break
            self._take(self._protocol.receive(data))
        self._break(reason)

    def count_unacknowledged(self) -> int:
        """Return how many of the messages that left last the peer's system has not acknowledged, as far as it is known.

        Of what it has acknowledged, nobody knows how much the peer has read.
        """
        acknowledged = self._written - bytes_unacknowledged(self._socket)
        count = 0
        for start, ends in reversed(self._recent):
            arrived = bisect_right(ends, acknowledged - start)
            count += len(ends) - arrived
            if arrived:
                break
        return count

    def _release(self) -> None:
        """Let the loop forget the socket."""
        self.is_open = False
        self._timer.cancel()
        self._loop.remove_reader(self._socket)
        self._loop.remove_writer(self._socket)
        self._unread = []

    def abort(self) -> None:
        """Close at once. What was not written yet never leaves."""
        if self.is_open:
            self._release()
            self._socket.close()

    def close(self, linger: float) -> None:
        """Write what is left and close, within so many seconds; without any, close at once."""
        self.flush()
        if not self.is_open:
            return
        self._release()
        rest = bytes(self._rest) + b"".join(self._pieces)
        Farewell(self._socket, rest, linger, self._loop)
