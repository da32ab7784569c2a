"""What a class says that it handles, and how mistakes in it show."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import msgspec
import pytest

from hopline import Actor, ArgumentError, Context, Message, MessageIdentifier, Payload, handler, payload
from hopline.actors import HandlerDefinition, handler_map


class Ask(Payload):
    number: int


@payload("TOLD", version=2, partition=b"eu")
class Told(msgspec.Struct):
    number: int


RAW = MessageIdentifier(b"RAW", 7)


def handled_by(actor: Actor) -> list[str]:
    return [str(identifier) for identifier in handler_map(actor)]


def test_the_annotation_tells_the_message() -> None:
    class Annotated(Actor):
        @handler
        def ask(self, ask: Ask) -> None: ...

        @handler
        async def told(self, told: Told, context: Context) -> None: ...

        def not_a_handler(self, ask: Ask) -> None: ...

    definitions = list(handler_map(Annotated()).values())
    assert [str(one.identifier) for one in definitions] == ["Ask/1", "TOLD/2/eu"]
    assert [one.content for one in definitions] == [Ask, Told]
    assert [one.wants_context for one in definitions] == [False, True]


def test_the_decorator_tells_the_message() -> None:
    class Decorated(Actor):
        @handler(Ask)
        def ask(self, message: Message) -> None: ...

        @handler(RAW)
        def raw(self, message: Message) -> None: ...

        @handler(MessageIdentifier(b"TYPED"))
        def typed(self, ask: Ask) -> None: ...

        @handler(Told)
        def unannotated(self, told) -> None: ...  # type: ignore[no-untyped-def]  # noqa: ANN001

    definitions = handler_map(Decorated())
    assert [str(identifier) for identifier in definitions] == ["Ask/1", "RAW/7", "TYPED/1", "TOLD/2/eu"]
    assert [one.content for one in definitions.values()] == [None, None, Ask, Told]


def test_one_method_may_handle_several_messages_and_partitions() -> None:
    class Several(Actor):
        @handler(Ask, partition=b"eu")
        @handler(Ask, partition=b"us", keep_local=True)
        @handler(Told)
        def any(self, message: Message) -> None: ...

    definitions = handler_map(Several())
    assert [str(identifier) for identifier in definitions] == ["Ask/1/eu", "Ask/1/us", "TOLD/2/eu"]
    assert [one.keep_local for one in definitions.values()] == [False, True, False]


def test_handlers_are_inherited_and_overriding_keeps_them() -> None:
    class Base(Actor):
        @handler
        def ask(self, ask: Ask) -> str:
            return "base"

    class Derived(Base):
        def ask(self, ask: Ask) -> str:
            return "derived"

        @handler
        def told(self, told: Told) -> None: ...

    assert sorted(handled_by(Derived())) == ["Ask/1", "TOLD/2/eu"]
    definition = handler_map(Derived())[MessageIdentifier(b"Ask")]
    assert definition.function(Derived(), Ask(1)) == "derived"
    assert handled_by(Base()) == ["Ask/1"]


def test_an_actor_may_bind_its_handlers_to_a_partition_of_its_own() -> None:
    class Regional(Actor):
        def __init__(self, region: bytes) -> None:
            self._region = region

        def definitions(self) -> Iterable[HandlerDefinition]:
            return [one.bound_to(self._region) for one in super().definitions()]

        @handler
        def ask(self, ask: Ask) -> None: ...

    assert handled_by(Regional(b"eu")) == ["Ask/1/eu"]
    assert handled_by(Regional(b"us")) == ["Ask/1/us"]


def test_identities_are_made_without_the_base_class_s_help() -> None:
    class Stubborn(Actor):
        def __init__(self) -> None:  # calls no super
            self.value = 1

    one, other = Stubborn(), Stubborn()
    assert one.identity == one.identity != other.identity
    assert len(one.identity) == 37
    assert one.identity[:1] == b"\x01"


def made(**members: Any) -> Actor:
    cls: type[Actor] = type("Wrong", (Actor,), members)
    return cls()


def no_annotation(self: Any, ask: Any) -> None: ...
def not_a_payload(self: Any, ask: int) -> None: ...
def too_many(self: Any, ask: Ask, context: Context, more: int) -> None: ...
def too_few(self: Any) -> None: ...
def wrong_context(self: Any, ask: Ask, context: int) -> None: ...
async def awaits(self: Any, ask: Ask) -> None: ...
def unknown_name(self: Any, ask: Nowhere) -> None: ...  # type: ignore[name-defined]  # noqa: F821
def message_only(self: Any, message: Message) -> None: ...
def either(self: Any, content: Ask | Told) -> None: ...
def another(self: Any, told: Told) -> None: ...
def any_number(self: Any, *asks: Ask) -> None: ...
def by_name(self: Any, *, ask: Ask) -> None: ...


@pytest.mark.parametrize(
    ("method", "says"),
    [
        (handler(no_annotation), "a parameter annotated with one payload class, or @handler(Kind) for each kind"),
        (handler(not_a_payload), "a parameter annotated with one payload class, or @handler(Kind) for each kind"),
        (handler(too_many), "parameters (self, content) or (self, content, context)"),
        (handler(too_few), "parameters (self, content) or (self, content, context)"),
        (handler(wrong_context), "a second parameter annotated with Context"),
        (handler(blocking=True)(awaits), "a plain function for blocking=True"),
        (handler(unknown_name), "annotations that can be read from the module"),
        (handler(either), "@handler(Kind) for each kind"),
        (handler(Ask)(another), "a parameter annotated with Ask or Message"),
        (handler(any_number), "parameters (self, content) or (self, content, context)"),
        (handler(by_name), "parameters (self, content) or (self, content, context)"),
        (handler(message_only), "a parameter annotated with one payload class, or @handler(Kind) for each kind"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_mistake_in_a_handler_is_told_when_the_actor_is_looked_at(method: Any, says: str) -> None:
    with pytest.raises(ArgumentError, match=re.escape(says)):
        handler_map(made(wrong=method))


def test_two_handlers_of_one_message_in_an_actor_are_a_mistake() -> None:
    class Twice(Actor):
        @handler
        def first(self, ask: Ask) -> None: ...

        @handler
        def second(self, ask: Ask) -> None: ...

    with pytest.raises(ArgumentError, match="one handler for Ask/1, found "):
        handler_map(Twice())


def test_only_functions_are_handlers() -> None:
    with pytest.raises(ArgumentError, match="a method of an actor"):
        handler(Ask)(42)  # type: ignore[type-var]


def test_a_name_that_only_the_decorator_knows_is_enough() -> None:
    class Hidden(Payload):
        number: int

    class Uses(Actor):
        @handler(Hidden)
        def hidden(self, hidden: Hidden) -> None: ...

    assert handled_by(Uses()) == ["Hidden/1"]


@pytest.mark.parametrize("wrong", [staticmethod(no_annotation), "Ask", 42])
def test_what_cannot_be_a_handler_is_refused_where_it_is_decorated(wrong: Any) -> None:
    with pytest.raises(ArgumentError, match="a method, a payload class or a MessageIdentifier"):
        handler(wrong)


def test_a_partition_is_text_or_bytes() -> None:
    with pytest.raises(ArgumentError, match="handler partition: expected text or bytes"):
        handler(Ask, partition=3)  # type: ignore[call-overload]


@pytest.mark.parametrize("name", ["concurrency", "mailbox_capacity"])
@pytest.mark.parametrize("value", [0, -1, 1.5])
def test_limits_of_a_class_that_make_no_sense_are_named(name: str, value: Any) -> None:
    with pytest.raises(ArgumentError, match=f"Wrong.{name}: expected at least 1"):
        handler_map(made(**{name: value}))
