"""Messages made of what a handler returned, in the flow of the message that it handled. Pure.

The rules are the protocol's: a result inherits the correlation id, the trace and, unless it is a broadcast, the
callback point of the message that it answers. It never inherits the lifetime, hops or receivers.
"""

from __future__ import annotations

from hopline.message import (
    EXCEPTION,
    RECEIPT,
    ArgumentError,
    Distribution,
    ExceptionReport,
    Message,
    MessageIdentifier,
    Version,
    payload_type,
)


def result(
    incoming: Message, content: object, partition: str | bytes | None = None, version: Version | None = None
) -> Message:
    """Return the message of a handler's result, which is a payload or a message.

    Args:
        incoming: The message that is handled.
        content: The result.
        partition: The partition of the result, if it is not its own.
        version: The version of the result, if it is not its own.

    Raises:
        ArgumentError: The content is neither.
    """
    if isinstance(content, Message):
        return _result_message(incoming, content.redirected(partition, version))
    try:
        kind = payload_type(content.__class__)
    except ArgumentError:
        raise ArgumentError("result", "payloads, messages or nothing", content) from None
    identifier = kind.identifier.redirected(partition, version)
    return plain_result(incoming, identifier, kind.serializer.encode(content))


def exception_result(incoming: Message, report: ExceptionReport) -> Message:
    """Return the message that reports a failure. Like any result it goes to the callback point.

    Exceptions and receipts exist in every domain, so they stay in the domain of the message that they answer.
    """
    result = plain_result(incoming, EXCEPTION, report.to_body())
    return result.clone(domain=incoming.domain) if incoming.domain else result


def receipt(incoming: Message) -> Message:
    """Return the receipt of a message: a message that is its own callback."""
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
    """Return a unicast result with this body. Nearly every result is one, hence without intermediate messages."""
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
        incoming.wire_format,  # the answer is in the format of the request, and routed by its rules
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
