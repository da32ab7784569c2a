"""The message that says what went wrong: a BSON document, as the reference writes and reads it."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopline.message import ExceptionReport
from hopline.wire import decode

LIVE = Path(__file__).parent.parent / "data" / "vectors" / "live2.json"


@given(st.text(), st.text(), st.text())
def test_a_report_comes_back_as_it_was(text: str, type_name: str, stack: str) -> None:
    report = ExceptionReport(text, type_name, stack)
    try:
        (text + type_name + stack).encode()
    except UnicodeEncodeError:  # a lone surrogate is written as what it looks like
        assert "\\ud" in repr(ExceptionReport.from_body(report.to_body()))
    else:
        assert ExceptionReport.from_body(report.to_body()) == report


def test_the_document_has_what_each_generation_of_the_reference_needs() -> None:
    body = ExceptionReport("no", "E").to_body()
    inner = (
        b"\x02ClassName\0\x11\0\0\0System.Exception\0"
        + b"\x02Message\0\x07\0\0\0no [E]\0"
        + b"\x0aData\0\x0aInnerException\0\x0aHelpURL\0\x0aStackTraceString\0\x0aRemoteStackTraceString\0"
        + b"\x10RemoteStackIndex\0\0\0\0\0"
        + b"\x0aExceptionMethod\0"
        + b"\x10HResult\0\x00\x15\x13\x80"
        + b"\x0aSource\0\x0aWatsonBuckets\0"
        + b"\0"
    )
    assert body == (
        struct.pack("<i", len(body))
        + b"\x03Exception\0"
        + struct.pack("<i", len(inner) + 4)
        + inner
        + b"\x02Message\0\x03\0\0\0no\0"
        + b"\x02ExceptionType\0\x02\0\0\0E\0"
        + b"\x02StackTrace\0\x01\0\0\0\0"
        + b"\0"
    )


def recorded_exceptions() -> Iterator[tuple[str, bytes]]:
    """Return the format and the body of every exception message that the reference was seen to send."""
    for capture in json.loads(LIVE.read_text(encoding="utf-8"))["captures"]:
        for message in capture["messages"]:
            if message["identity"] == "KINO.EXCEPTION":
                yield capture["wire"], decode([bytes.fromhex(frame) for frame in message["frames"]]).body


def test_exceptions_of_both_generations_of_the_reference_are_read() -> None:
    texts = {"v5": "kino actor says no: abc", "v6": "kino actor says no: abc", "v5_int32": "kino actor says no: hi"}
    seen = list(recorded_exceptions())
    assert {wire for wire, _ in seen} == texts.keys()
    for wire, body in seen:
        expected = ExceptionReport(texts[wire], "System.InvalidOperationException", "   at KH.FailActor.H(IMessage m)")
        assert ExceptionReport.from_body(body) == expected


def test_a_damaged_document_inside_does_no_harm_to_the_texts_beside_it() -> None:
    report = ExceptionReport("no", "E")
    body = report.to_body().replace(b"\x02ClassName", b"\x7fClassName")
    assert ExceptionReport.from_body(body) == report
    alone = body.replace(b"\x02ExceptionType", b"\x02ExceptionTypo")
    assert ExceptionReport.from_body(alone).text.startswith("an exception message that cannot be read")


def test_padding_after_the_document_is_ignored() -> None:
    report = ExceptionReport("out of paper", "Printer.Error", "at Printer")
    assert ExceptionReport.from_body(report.to_body().ljust(1024, b"\0")) == report


def test_other_elements_are_skipped_and_missing_ones_are_empty() -> None:
    elements = (
        b"\x01d\0" + b"\0" * 8  # a double
        + b"\x02ClassName\0\x05\0\0\0Oops\0"
        + b"\x03Data\0\x05\0\0\0\0"  # an empty document
        + b"\x05b\0\x02\0\0\0\x00hi"  # two bytes
        + b"\x08h\0\x01\x0aInner\0\x10n\0\x07\0\0\0\x12l\0" + b"\x01" * 8
        + b"\x02Message\0\x03\0\0\0no\0"
    )  # fmt: skip
    body = struct.pack("<i", len(elements) + 5) + elements + b"\0"
    assert ExceptionReport.from_body(body) == ExceptionReport("no", "", "")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\x05",
        b"\xff\xff\xff\x7f" + b"\0" * 20,
        b"\x06\0\0\0\0\x01",
        b"\x0c\0\0\0\x02M\0\xff\xff\xff\x7f\0",
        b"\x0c\0\0\0\x02M\0\xff\xff\xff\xff\0",
        b"\x08\0\0\0\x63M\0\0",
        b"\x07\0\0\0MM\0",
        b"\x0d\0\0\0\x02M\0\x02\0\0\0\0\0",
    ],
)
def test_what_cannot_be_read_becomes_a_report_of_just_that(body: bytes) -> None:
    report = ExceptionReport.from_body(body)
    assert report.text.startswith("an exception message that cannot be read")
    assert report.type_name.endswith("PayloadError")


@given(st.binary(max_size=200))
def test_no_body_makes_it_raise(body: bytes) -> None:
    ExceptionReport.from_body(body)


def test_an_error_is_reported_by_its_full_name() -> None:
    assert ExceptionReport.of(ValueError("bad")) == ExceptionReport("bad", "ValueError", "")
    assert ExceptionReport.of(struct.error("bad")).type_name == "struct.error"
