"""`ask` for everything that asks: hubs, and the contexts of handlers."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from datetime import timedelta
from typing import Any, TypeAlias, TypedDict, TypeVar, Unpack, overload

from hopline.client.reply_spec import Callback
from hopline.client.retry import Retry
from hopline.message import AnsweredBy, AnyPayload, MessageIdentifier, Version
from hopline.message.message import Message

Answer = TypeVar("Answer", bound=AnyPayload)
First = TypeVar("First", bound=AnyPayload)
Second = TypeVar("Second", bound=AnyPayload)
Timeout: TypeAlias = float | timedelta | None
Partition: TypeAlias = str | bytes | None


class SendOptions(TypedDict, total=False):
    """Arguments of `send` that all its forms have."""

    timeout: Timeout
    partition: Partition
    version: Version | None


class AskOptions(SendOptions, total=False):
    """Arguments of `ask` that all its forms have."""

    retry: Retry | None


class Asking:
    """Mix-in with `ask`."""

    __slots__ = ()

    @overload
    async def ask(
        self, content: AnsweredBy[Answer], callback: None = None, **options: Unpack[AskOptions]
    ) -> Answer: ...
    @overload
    async def ask(self, content: AnyPayload, callback: type[Answer], **options: Unpack[AskOptions]) -> Answer: ...
    @overload
    async def ask(self, content: AnyPayload, callback: MessageIdentifier, **options: Unpack[AskOptions]) -> Message: ...
    @overload
    async def ask(
        self, content: AnyPayload, callback: tuple[type[First], type[Second]], **options: Unpack[AskOptions]
    ) -> First | Second: ...
    @overload
    async def ask(
        self,
        content: AnyPayload,
        callback: Sequence[type[AnyPayload] | MessageIdentifier],
        **options: Unpack[AskOptions],
    ) -> Any: ...
    async def ask(
        self,
        content: Any,
        callback: Callback | None = None,
        *,
        timeout: Timeout = None,
        partition: Partition = None,
        version: Version | None = None,
        retry: Retry | None = None,
    ) -> Any:
        """Send a request, and return its answer.

        What answers a `Request` is part of its class. Any later message of the flow of that kind is the answer,
        whichever actor sends it; of several, the first one counts.

        Args:
            content: A request. With a `callback`, any payload or message.
            callback: The kind of the answer, or several, where the class of the request does not say it or another one
                is waited for.
            timeout: Seconds to wait. Default: the node's `request_timeout`; in a handler, what is left of the lifetime
                of the message that is handled.
            partition: The partition, if it is not the one of the payload class.
            version: The version, if it is not the one of the payload class.
            retry: When to ask again, within the timeout. Default: never.

        Raises:
            ActorError: The handler of the request failed.
            DeliveryError: The request reached no receiver.
            AnswerTimeoutError: The time has passed; in a handler, also if none was left, and then nothing is sent.
        """
        return await self._ask(content, callback, timeout, partition, version, retry)

    def _ask(
        self,
        content: Any,
        callback: Callback | None,
        timeout: Timeout,
        partition: Partition,
        version: Version | None,
        retry: Retry | None,
    ) -> Coroutine[Any, Any, Any]:
        raise NotImplementedError
