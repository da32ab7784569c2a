"""One record: its frames as `hopline decode` shows them, and its body decoded."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import fsspec
import pytest
from google.protobuf import descriptor_pb2

from hopline.explorer.protobuf_bodies import DescriptorError, ProtobufTypes
from hopline.explorer.records import FramesError, RecordedFrames
from hopline.query.errors import StorageError
from tests.explorer.asking import Client
from tests.explorer.conftest import Opening
from tests.explorer.planted import ORDER_FLOW, PRICES, RECORDS, SEGMENT, SHOP, write_planted
from tests.explorer.test_pages import rows_of, text_of
from tests.network.processes import free_ports
from tests.pipeline.webhdfs import webhdfs


def test_a_record_has_its_frames_with_names_values_and_meanings(client: Client) -> None:
    rows = rows_of(client, f"/record?node={SHOP}&seq=1")
    by_field = {row[1]: row for row in rows}
    assert by_field["identity*"][3] == "'ORDER'"
    assert by_field["correlation_id"][3] == f"'{ORDER_FLOW}'"
    said = text_of(client, f"/record?node={SHOP}&seq=1")
    assert "MessagePack" in said
    assert '"sku": "blue-kettle"' in said


def test_a_record_that_could_not_be_decoded_has_its_fault_marked(client: Client) -> None:
    page = client.get(f"/record?node={PRICES}&seq=99").text
    assert '<tr class="fault">' in page
    said = text_of(client, f"/record?node={PRICES}&seq=99")
    assert "could not be decoded: unknown version" in said
    assert "not read" in said


def test_a_record_leads_to_its_neighbours_and_its_cause(client: Client) -> None:
    page = client.get(f"/record?node={SHOP}&seq=2").text
    assert f'rel="prev" href="/record?node={SHOP}&amp;seq=1"' in page
    assert f'rel="next" href="/record?node={SHOP}&amp;seq=3"' in page


def test_without_captures_the_page_says_how_to_see_frames(opening: Opening, planted_tables: Path) -> None:
    said = text_of(opening(planted_tables), f"/record?node={SHOP}&seq=1")
    assert "start the explorer with --captures" in said
    assert "blue-kettle" in said, "the tables have the bodies"


def test_a_record_that_is_not_there_is_not_found(client: Client) -> None:
    assert "no record 12345" in text_of(client, f"/record?node={SHOP}&seq=12345", 404)
    assert "needs node and seq" in text_of(client, "/record", 400)
    assert "no day" in text_of(client, f"/record?node={SHOP}&seq=1&date=x", 400)


@pytest.mark.parametrize(
    "segment",
    ["/etc/passwd", "../secret.parquet", "date=2026-01-31/../../secret.parquet", "link.parquet", "", None, "a\0b", "."],
)
def test_nothing_outside_the_captures_is_opened(tmp_path: Path, planted_captures: Path, segment: str | None) -> None:
    captures = tmp_path / "captures"
    captures.mkdir()
    shutil.copy(planted_captures / SEGMENT, tmp_path / "secret.parquet")  # which could be read
    (captures / "link.parquet").symlink_to(tmp_path / "secret.parquet")
    with pytest.raises(FramesError):
        RecordedFrames(captures).read(segment, SHOP, 1)


@pytest.fixture(params=["memory", "webhdfs", "file"])
def remote_captures(request: pytest.FixtureRequest, planted_captures: Path) -> Iterator[str]:
    """The captures on some storage."""
    if request.param == "memory":
        memory = fsspec.filesystem("memory")
        memory.put(str(planted_captures), "/lake/captures", recursive=True)
        memory.pipe_file("/lake/secret.parquet", b"PAR1")
        yield "memory://lake/captures"
        memory.rm("/lake", recursive=True)
    elif request.param == "webhdfs":
        with webhdfs(planted_captures.parent) as uri:
            yield f"{uri}/{planted_captures.name}"
    else:
        yield planted_captures.as_uri()


def test_captures_may_be_on_any_storage(remote_captures: str, planted_captures: Path) -> None:
    frames = RecordedFrames(remote_captures)
    assert frames.are_there()
    assert frames.read(SEGMENT, SHOP, 1) == RecordedFrames(planted_captures).read(SEGMENT, SHOP, 1)
    with pytest.raises(FramesError, match="no such segment in the captures"):
        frames.read("another.parquet", SHOP, 1)
    for segment in ("../secret.parquet", "date=2026-01-31/../../secret.parquet", "/lake/secret.parquet"):
        with pytest.raises(FramesError, match="no segment of these captures"):
            frames.read(segment, SHOP, 1)
    assert not RecordedFrames(f"{remote_captures}/nowhere").are_there()


def test_a_storage_that_does_not_answer_is_said_on_the_page(planted_tables: Path, opening: Opening) -> None:
    (port,) = free_ports(1)
    captures = f"webhdfs://127.0.0.1:{port}/captures"
    with pytest.raises(StorageError, match=captures):
        RecordedFrames(captures).are_there()
    said = text_of(opening(planted_tables, captures), f"/record?node={SHOP}&seq=1")
    assert f"{SEGMENT}: cannot be read" in said
    assert "blue-kettle" in said, "the tables have the bodies"


def test_a_segment_that_is_damaged_or_lacks_the_record_says_so(planted_captures: Path, tmp_path: Path) -> None:
    with pytest.raises(FramesError, match="no record 77"):
        RecordedFrames(planted_captures).read(SEGMENT, SHOP, 77)
    with pytest.raises(FramesError, match="no such segment"):
        RecordedFrames(tmp_path).read(SEGMENT, SHOP, 1)
    (tmp_path / "x.parquet").write_bytes(b"nothing of the kind")
    with pytest.raises(FramesError, match="cannot be read"):
        RecordedFrames(tmp_path).read("x.parquet", SHOP, 1)


def _descriptors(path: Path) -> Path:
    file = descriptor_pb2.FileDescriptorProto(name="orders.proto", package="shop", syntax="proto3")
    order = file.message_type.add(name="Order")
    order.field.add(name="sku", number=1, type="TYPE_STRING", label="LABEL_OPTIONAL")
    file.message_type.add(name="Empty")
    path.write_bytes(descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString())
    return path


def test_a_protobuf_body_is_shown_by_its_descriptor(tmp_path: Path, opening: Opening) -> None:
    descriptor = _descriptors(tmp_path / "orders.desc")
    body = b"\x0a\x04<b>\xe2"[:-1] + b"!"
    tables = write_planted(tmp_path / "tables", messages=[RECORDS[0] | {"bodies": [body]}])
    client = opening(tables, descriptor=descriptor)
    said = text_of(client, f"/record?node={SHOP}&seq=1")
    assert "protobuf shop.Order" in said
    assert '"sku": "<b>!"' in said
    assert "protobuf shop.Empty" in text_of(client, f"/record?node={SHOP}&seq=1&as=shop.Empty")
    assert "protobuf shop" not in text_of(client, f"/record?node={SHOP}&seq=1&as=nonsense")


def test_a_file_that_is_no_descriptors_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"\xff\xff")
    with pytest.raises(DescriptorError, match="no file of descriptors"):
        ProtobufTypes(tmp_path / "x")
    (tmp_path / "y").write_bytes(b"")
    with pytest.raises(DescriptorError, match="no message types"):
        ProtobufTypes(tmp_path / "y")
    with pytest.raises(DescriptorError, match="No such file"):
        ProtobufTypes(tmp_path / "z")
