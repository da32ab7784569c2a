"""What a handler returned, made part of the flow that it belongs to. Pure.

The rules are the protocol's: a result takes the correlation id, the trace and, unless it is a broadcast, the callback
point of the message that it answers. It never takes its lifetime, hops or receivers.
"""

from __future__ import annotations

from hopline.message import (
    EXCEPTION,
    RECEIPT,
    Distribution,
    ExceptionReport,
    LocalError,
    Message,
    MessageIdentifier,
    payload_type,
)


def result(incoming: Message, content: object) -> Message:
    """Make the message of what a handler returned: a payload, or a message that says more."""
    if isinstance(content, Message):
        return _result_message(incoming, content)
    try:
        kind = payload_type(content.__class__)
    except LocalError:
        raise LocalError("result", "payloads, messages or nothing", content) from None
    return plain_result(incoming, kind.identifier, kind.serializer.encode(content))


def exception_result(incoming: Message, report: ExceptionReport) -> Message:
    """Make the message that says what went wrong. It goes where the callback point says, as any result.

    It stays in the domain of what it answers, as receipts do: these two belong to all of them.
    """
    result = plain_result(incoming, EXCEPTION, report.to_body())
    return result.clone(domain=incoming.domain) if incoming.domain else result


def receipt(incoming: Message) -> Message:
    """Make the confirmation that a sender waits for: a message that is its own callback."""
    confirmation = Message(
        identity=RECEIPT.identity,
        correlation_id=incoming.correlation_id,
        trace_options=incoming.trace_options,
        domain=incoming.domain,
        routing=incoming.routing,
        wire_format=incoming.wire_format,
    )
    return confirmation.register_callback_point(
        incoming.callback_receiver_node_identity,
        incoming.callback_receiver_identity,
        (RECEIPT,),
        incoming.callback_key,
    )


def plain_result(incoming: Message, identifier: MessageIdentifier, body: bytes) -> Message:
    """Make a unicast result in one go, which is what nearly every handler returns."""
    callback_point = incoming.callback_point
    if identifier in callback_point:
        receiver, node = incoming.callback_receiver_identity, incoming.callback_receiver_node_identity
    else:
        receiver = node = b""
    return Message(  # by position, which takes half the time
        identifier.identity,
        identifier.version,
        identifier.partition,
        (body,),
        0,  # unicast
        incoming.correlation_id,
        0,  # no lifetime
        incoming.trace_options,
        0,  # no hops yet
        receiver,
        node,
        callback_point,
        incoming.callback_key,
        incoming.callback_receiver_identity,
        incoming.callback_receiver_node_identity,
        b"",  # no socket
        b"",  # no signature
        "",  # no domain
        incoming.routing,
        b"",  # no extension
        incoming.wire_format,  # it answers in kind, and is routed by that format's rule
    )


def _result_message(incoming: Message, outgoing: Message) -> Message:
    if outgoing.distribution != Distribution.BROADCAST:
        outgoing = outgoing.register_callback_point(
            incoming.callback_receiver_node_identity,
            incoming.callback_receiver_identity,
            incoming.callback_point,
            incoming.callback_key,
        )
    return outgoing.clone(
        correlation_id=incoming.correlation_id,
        routing=incoming.routing,
        trace_options=outgoing.trace_options | incoming.trace_options,
        hops=0,
        wire_format=incoming.wire_format,
    )
