"""The capture in the configuration of a node."""

from __future__ import annotations

from pathlib import Path

import pytest

from hopline import CaptureLevel, CaptureSettings
from hopline.config import ConfigurationError, given, read_configuration


def capture_of(folder: Path, text: str, environment: dict[str, str] | None = None) -> CaptureSettings | None:
    file = folder / "hopline.toml"
    file.write_text(text)
    return read_configuration(file, environment or {}).capture()


def test_a_node_has_no_capture_unless_it_is_given_a_place(tmp_path: Path) -> None:
    assert capture_of(tmp_path, "") is None


def test_a_place_in_the_file_is_beside_the_file(tmp_path: Path) -> None:
    text = """
[capture]
directory = "captures"
level = "full"
segment_time = 5
keep_bytes = 1_000_000
"""
    settings = capture_of(tmp_path, text, {"HOPLINE_CAPTURE__BUFFER_BYTES": "1000"})
    assert settings is not None
    assert settings.directory == str(tmp_path / "captures")
    assert (settings.level, settings.segment_time) == (CaptureLevel.FULL, 5.0)
    assert (settings.keep_bytes, settings.buffer_bytes) == (1_000_000, 1_000)


def test_an_option_is_from_where_the_command_runs(tmp_path: Path) -> None:
    options = {"capture.directory": given("--capture", "here"), "capture.level": given("--capture-level", "off")}
    settings = read_configuration(None, {}, options).capture()
    assert settings is not None
    assert (settings.directory, settings.level) == ("here", CaptureLevel.OFF)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('[capture]\nlevel = "full"', "capture.directory: this key is missing"),
        ('[capture]\ndirectory = "x"\nlevel = "all"', "capture.level: expected one of off, wire, full"),
        ('[capture]\ndirectory = "x"\nsegment_bytes = 0', "capture.segment_bytes: expected a number above 0"),
        ('[capture]\ndirectory = "x"\nsize = 1', "capture.size: unknown key"),
    ],
)
def test_what_makes_no_sense_is_told_with_its_key(text: str, says: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=says):
        capture_of(tmp_path, text)
