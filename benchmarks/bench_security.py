"""Time signing and verifying beside the bare HMAC of the same fields: ``make bench-security``.

The yardstick is one `hmac.digest` to sign and one to verify, of the bytes that the reference covers: what any program
would pay. Every round times each way once; a ratio is taken within its round, and the table shows medians, in processor
time.
"""

from __future__ import annotations

import hmac
import platform
import statistics
import time
from collections.abc import Callable

from rich.console import Console
from rich.table import Table

from hopline import Message, MessageIdentifier
from hopline.security import Domain, DomainSecurity, new_key
from hopline.wire import mac_input

ROUNDS = 60
MESSAGES = 1_000
YARDSTICK = "bare HMAC-SHA256"
WAYS: dict[str, dict[str, object]] = {
    "sealed": {},
    "sealed, replays refused": {"refuse_replays": True},
    "sealed, SHA-512": {"algorithm": "sha512"},
    "reference": {"profile": "reference"},
    "reference, MD5": {"profile": "reference", "algorithm": "md5"},
}


def bare(message: Message) -> Callable[[], None]:
    """Sign and verify by hand."""
    secret, content = new_key().reveal(), mac_input(message)

    def run() -> None:
        for _ in range(MESSAGES):
            signature = hmac.digest(secret, content, "sha256")
            if not hmac.compare_digest(hmac.digest(secret, content, "sha256"), signature):
                raise AssertionError

    return run


def secured(message: Message, settings: dict[str, object]) -> Callable[[], None]:
    """Sign and verify as a node does."""
    domain = Domain("orders", new_key(), [message.identity], **settings)  # type: ignore[arg-type]
    security = DomainSecurity([domain], clock=time.time)

    def run() -> None:
        for _ in range(MESSAGES):
            security.verify(security.sign(message))

    return run


def microseconds(run: Callable[[], None]) -> float:
    """Time one message, in the processor time that it takes: others may be using the machine."""
    start = time.process_time()
    run()
    return (time.process_time() - start) / MESSAGES * 1e6


def main() -> None:
    """Print a table for a message with a body of 64 bytes, without and with callback points."""
    console = Console(width=120)
    console.print(f"Python {platform.python_version()}, {platform.machine()}: to sign and to verify one message")
    plain = Message.flow_start(b"ORDER.PRICE", bytes(64))
    points = (MessageIdentifier(b"ORDER.PRICED"), MessageIdentifier(b"KINO.EXCEPTION"))
    for title, message in {
        "64-byte body": plain,
        "64-byte body, two callback points": plain.register_callback_point(b"n" * 36, b"\0" + b"h" * 36, points, 7),
    }.items():
        ways = {YARDSTICK: bare(message)} | {name: secured(message, settings) for name, settings in WAYS.items()}
        rounds = [{name: microseconds(run) for name, run in ways.items()} for _ in range(ROUNDS)]
        table = Table(title=title)
        for heading in ("way", "µs", f"x {YARDSTICK}"):
            table.add_column(heading)
        for name in ways:
            ratio = statistics.median(times[name] / times[YARDSTICK] for times in rounds)
            table.add_row(name, f"{statistics.median(times[name] for times in rounds):.2f}", f"{ratio:.2f}")
        console.print(table)


if __name__ == "__main__":
    main()
