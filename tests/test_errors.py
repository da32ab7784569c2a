"""The hierarchy of errors: each is also the error of Python's own that a caller would catch."""

from __future__ import annotations

import copy
import errno

import pytest

import hopline
from hopline import errors
from hopline.errors import (
    ActorError,
    AnswerTimeoutError,
    ArgumentError,
    ArgumentTypeError,
    BindError,
    DeliveryError,
    HoplineError,
    MissingExtraError,
    NoRoomError,
    PayloadError,
    SchemaConflictError,
)
from hopline.wire import Reason, RemoteError

EXAMPLES = [
    (ArgumentError("ttl", "seconds", -1), ValueError, "ttl: expected seconds, found -1"),
    (ArgumentTypeError("ttl", "seconds", "1"), TypeError, "ttl: expected seconds, found '1'"),
    (ArgumentError("hops", "0 to 65535", -1), ValueError, "hops: expected 0 to 65535, found -1"),
    (AnswerTimeoutError("Greet/1", 2.5), TimeoutError, "no answer to Greet/1 within 2.5 s"),
    (AnswerTimeoutError("Greet/1", 0), TimeoutError, "no time was left to wait for an answer to Greet/1"),
    (
        BindError("address", "tcp://127.0.0.1:80", "Permission denied", errno.EACCES),
        OSError,
        "address: cannot bind to tcp://127.0.0.1:80 (Permission denied); choose a free port, or 0 for any",
    ),
    (
        MissingExtraError("capture", "pyarrow", "capture"),
        ImportError,
        "capture needs pyarrow: pip install 'hopline[capture]'",
    ),
    (PayloadError(int, "no number", b"x"), HoplineError, "not a valid int: no number (1 bytes 78)"),
    (
        SchemaConflictError("Pay/1", int, str, ["cents is in the first only"]),
        ArgumentError,
        "payload Pay/1: builtins.int and builtins.str have different schemas: cents is in the first only. "
        "Use one class, or give one of them another name or version with @payload",
    ),
    (ActorError("ValueError", "too small"), HoplineError, "ValueError: too small"),
    (ActorError("ValueError", ""), HoplineError, "ValueError"),
    (DeliveryError("expired", "its lifetime ended"), HoplineError, "expired: its lifetime ended"),
    (NoRoomError("Greet/1"), HoplineError, "no room for Greet/1: its receiver is full"),
]


@pytest.mark.parametrize(("error", "kind", "text"), EXAMPLES)
def test_an_error_is_also_pythons_own_and_says_what_is_wrong(error: HoplineError, kind: type, text: str) -> None:
    assert isinstance(error, HoplineError)
    assert isinstance(error, kind)
    assert str(error) == text


@pytest.mark.parametrize("error", [example[0] for example in EXAMPLES])
def test_an_error_can_be_copied(error: HoplineError) -> None:
    assert str(copy.copy(error)) == str(error)


def test_a_bind_error_has_the_number_of_the_operating_system() -> None:
    assert BindError("address", "tcp://*:80", "Permission denied", errno.EACCES).errno == errno.EACCES
    assert BindError("address", "tcp://*:80", "in use").errno is None


def test_a_missing_extra_names_the_package_as_an_import_error_does() -> None:
    assert MissingExtraError("capture", "pyarrow", "capture").name == "pyarrow"


def test_a_long_value_is_cut_and_one_that_cannot_be_printed_is_described() -> None:
    assert str(ArgumentError("name", "short text", "x" * 1_000)).endswith("xxx...")
    assert str(ArgumentError("number", "a small one", 10**10_000)) == "number: expected a small one, found a huge int"


def test_errors_of_peers_are_not_errors_of_arguments() -> None:
    assert not issubclass(RemoteError, ValueError)
    assert str(RemoteError(Reason.BAD_VALUE, "ttl", "an i64", b"")).startswith("bad_value: ttl")


def test_the_hierarchy_in_the_documentation_names_every_error_of_the_front_and_of_the_module() -> None:
    documented = errors.__doc__ or ""
    for module in (hopline, errors):
        for name, value in vars(module).items():
            if isinstance(value, type) and issubclass(value, HoplineError):
                assert f" {name} " in documented.replace("\n", " \n"), name
