"""A tour of the wire: one order on its way through three nodes, in four formats; then a forger and a broken peer."""

from __future__ import annotations

from datetime import timedelta

from rich.console import Console
from rich.table import Table

from hopline import Message, MessageIdentifier, WireFormat
from hopline.cli.commands.decode.drawing import draw_message
from hopline.wire import RemoteError, annotate, decode, encode, has_valid_signature, peek, sign

KEY = b"the key of the orders domain"
CLIENT, PRICING = b"6f9619ff-8b86-d011-b42d-00cf4fc964ff", b"1b4e28ba-2fa1-11d2-883f-0016d3cca427"
HUB = b"\x00" + b"0b1d7a5e-33cd-4f5c-9a3e-7d0a52f0c001"
PRICED, FAILED = MessageIdentifier(b"ORDER.PRICED"), MessageIdentifier(b"KINO.EXCEPTION")


def order() -> Message:
    """Ask for a price as a client: ORDER.PRICED, or the failure, shall come back to its hub."""
    request = Message.flow_start(b"ORDER.PRICE", b'{"sku": 4711, "pieces": 3}', ttl=timedelta(seconds=30))
    request = request.register_callback_point(CLIENT, HUB, [PRICED, FAILED], key=42).clone(domain="orders")
    return request.add_hop().push_router_address("tcp://10.0.0.1:9000", CLIENT)


def answer(request: Message) -> Message:
    """Answer as the pricing actor, which knows nothing of the client: the callback point brings the result home."""
    priced = Message.create(b"ORDER.PRICED", b'{"cents": 8970}', correlation_id=request.correlation_id)
    priced = priced.register_callback_point(
        request.callback_receiver_node_identity,
        request.callback_receiver_identity,
        request.callback_point,
        request.callback_key,
    )
    return priced.clone(routing=request.routing, domain=request.domain).push_router_address(
        "tcp://10.0.0.2:9000", PRICING
    )


def sizes(message: Message) -> Table:
    """Compare the same message in every format."""
    table = Table(title="One message, four formats", title_justify="left")
    for column in ("format", "frames", "bytes", "read back as"):
        table.add_column(column, justify="left" if column in ("format", "read back as") else "right")
    for wire_format in WireFormat:
        frames = encode(message, wire_format)
        read = decode(frames)
        identifier, flow = str(read.identifier), read.correlation_id.decode()[:8]
        table.add_row(wire_format.name, str(len(frames)), str(sum(map(len, frames))), f"{identifier}, flow {flow}...")
    return table


def main() -> None:
    """Walk through it."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = 160
    request = sign(order(), KEY)

    console.rule("1. An order leaves for pricing")
    console.print(sizes(request))
    frames = encode(request, WireFormat.V5)
    view = peek(frames)
    console.print(
        f"A router reads no more than it needs: {view.identifier}, hops {view.hops}, format {view.wire_format}\n"
    )
    console.print(draw_message("the request", annotate(frames), console.width), soft_wrap=True)

    console.rule("2. The answer finds its way home")
    reply = sign(answer(decode(frames)), KEY)
    received = decode(encode(reply, WireFormat.V6))
    home = received.receiver_node_identity == CLIENT and received.receiver_identity == HUB
    road = " -> ".join(router.uri for router in received.routing)
    console.print(f"{received.identifier} is addressed to the waiting hub: {home}; its road: {road}\n")

    console.rule("3. Somebody changes the price")
    forged = received.clone(bodies=(b'{"cents": 1}',))
    for name, message in (("as sent", received), ("forged", forged)):
        console.print(f"  {name:8} {message.body.decode():18} signature valid: {has_valid_signature(message, KEY)}")

    console.rule("4. Somebody sends half a message")
    broken = [*frames[:-3], frames[-3][:4], *frames[-2:]]
    try:
        decode(broken)
    except RemoteError as error:
        console.print(f"decode raises {type(error).__name__}: {error}\n")
    console.print(draw_message("the broken message", annotate(broken), console.width), soft_wrap=True)

    console.rule("Dig further")
    console.print("  .venv/bin/hopline decode --help                                    any message, frame by frame")
    console.print("  .venv/bin/hopline decode tests/data/vectors/live.json --summary    what a running network said")
    console.print(
        "  docs/reference/wire-formats.md                                               every frame of every format"
    )
    console.print(
        "  make bench-wire                                                    how fast it is, beside its peers"
    )


if __name__ == "__main__":
    main()
