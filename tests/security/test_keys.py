"""Keys: in memory they show themselves to nobody, and a file of them is read by its owner only."""

from __future__ import annotations

import base64
import logging
import os
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hopline.security import (
    KEY_SIZE,
    Domain,
    DomainSecurity,
    Key,
    KeyFileError,
    KeyRing,
    SecurityError,
    key_line,
    load_keys,
    new_key,
)
from tests.security.domains import KEY, OTHER_KEY, Clock, order, orders, secure


def shows(text: str, key: Key) -> bool:
    """Tell whether a text has any eight bytes of a key, in any writing."""
    secret = key.reveal()
    parts = [secret[at : at + 8] for at in range(len(secret) - 7)]
    writings = [part.hex() for part in parts] + [part.decode("latin-1") for part in parts]
    return any(writing in text for writing in [*writings, base64.b64encode(secret).decode()[:12], repr(secret)[2:12]])


def with_variables(error: BaseException) -> str:
    """The traceback of an error with the variables of every function but the tests' own, as some debuggers print it."""
    text = "".join(traceback.format_exception(error))
    for frame, _ in traceback.walk_tb(error.__traceback__):
        if Path(frame.f_code.co_filename).parent != Path(__file__).parent:
            text += "".join(map(shown, frame.f_locals.values()))
    for linked in (error.__context__, error.__cause__):
        text += with_variables(linked) if linked else ""
    return text


def shown(value: object) -> str:
    try:
        return repr(value)
    except AttributeError:  # an object that is still being made
        return ""


# -- in memory --------------------------------------------------------------------------------------------------------


def test_new_keys_are_long_and_different() -> None:
    keys = {new_key() for _ in range(100)}
    assert len(keys) == 100
    assert {len(key) for key in keys} == {KEY_SIZE}


def test_keys_are_equal_when_their_secrets_are() -> None:
    assert Key(KEY.reveal()) == KEY
    assert KEY != OTHER_KEY
    assert KEY.reveal() != KEY
    assert str(KEY) == repr(KEY) == f"<Key {KEY.fingerprint}>"


def test_nothing_that_holds_keys_shows_them(tmp_path: Path) -> None:
    ring = KeyRing(written(tmp_path, key_line("orders", KEY)))
    security = secure()
    scope = next(iter(security._plan.signers.values()))
    for holder in (KEY, orders(), orders(keys=KEY.reveal()), security, ring, ring.keys, security._plan, scope):
        for text in (repr(holder), str(holder), f"{holder}"):
            assert not shows(text, KEY)
    assert KEY.fingerprint in repr(orders())
    assert KEY.fingerprint in repr(ring)


SECRET = b"a secret that is given as bytes!"
SHORT = b"shortest"

MISTAKES: dict[str, Callable[[], Any]] = {
    "short": lambda: Domain("orders", [SECRET, SHORT], ["ORDER"]),
    "text": lambda: Domain("orders", [SECRET, SECRET.decode()], ["ORDER"]),  # type: ignore[list-item]
    "text alone": lambda: Key(SECRET.decode()),  # type: ignore[arg-type]
    "twice": lambda: Domain("orders", [SECRET, SECRET]),
    "profile": lambda: Domain("orders", SECRET, profile="none"),
    "identities": lambda: Domain("orders", SECRET, "ORDER"),
    "rotate, unknown": lambda: secure().rotate("elsewhere", SECRET),
    "rotate, twice": lambda: secure().rotate("orders", [SECRET, SECRET]),
    "rotate, short": lambda: secure().rotate("orders", [SECRET, SHORT]),
    "defined twice": lambda: secure(orders(keys=SECRET), orders(keys=SECRET)),
    "forged": lambda: secure(orders(keys=SECRET)).verify(secure().sign(order())),
    "version": lambda: secure(orders(keys=SECRET, profile="reference")).sign(order(version=70_000)),
    "callback key": lambda: secure(orders(keys=SECRET)).sign(order(callback_key=2**80)),
}


@pytest.mark.parametrize("mistake", MISTAKES.values(), ids=MISTAKES)
def test_no_error_tells_a_key_even_with_the_variables_of_its_traceback(mistake: Callable[[], Any]) -> None:
    with pytest.raises(Exception) as raised:  # noqa: PT011
        mistake()
    told = with_variables(raised.value)
    assert "/hopline/" in told
    for key in (Key(SECRET), Key(SHORT), KEY):
        assert not shows(told, key)


def test_the_check_for_leaks_finds_a_leak() -> None:
    for text in (KEY.reveal().hex(), str(KEY.reveal()), base64.b64encode(KEY.reveal()).decode(), f"x{KEY.reveal()!r}"):
        assert shows(text, KEY)
    assert not shows(KEY.fingerprint, KEY)


# -- in a file --------------------------------------------------------------------------------------------------------

HEX, BASE64 = KEY.reveal().hex(), base64.b64encode(OTHER_KEY.reveal()).decode()


def written(folder: Path, text: str | bytes, mode: int = 0o600) -> Path:
    """Put a key file in place as an operator should: another file, renamed."""
    path, fresh = folder / "keys", folder / "keys.new"
    fresh.write_bytes(text.encode() if isinstance(text, str) else text)
    fresh.chmod(mode)
    fresh.rename(path)
    return path


def test_a_key_file_has_a_key_on_each_line_newest_first(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        f"# our keys\n\norders {HEX}\n  # the old one\norders\tbase64:{BASE64}\r\n\npayments  {HEX.upper()}",
    )
    assert load_keys(path) == {"orders": (KEY, OTHER_KEY), "payments": (KEY,)}
    assert load_keys(str(path), domains=["payments"]) == {"payments": (KEY,)}


def test_a_new_key_is_written_as_a_line_that_can_be_read(tmp_path: Path) -> None:
    key = new_key()
    assert load_keys(written(tmp_path, key_line("orders", key))) == {"orders": (key,)}


def test_keys_from_a_file_sign_and_verify_messages(tmp_path: Path) -> None:
    ring = KeyRing(written(tmp_path, key_line("orders", KEY)), domains=["orders"])
    DomainSecurity([Domain("orders", ring["orders"], ["ORDER"])], clock=Clock()).verify(secure().sign(order()))


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o620, 0o601, 0o777])
def test_a_file_that_others_may_use_is_refused_with_what_to_do(tmp_path: Path, mode: int) -> None:
    path = written(tmp_path, key_line("orders", KEY), mode)
    with pytest.raises(KeyFileError) as refused:
        load_keys(path)
    assert str(path) in str(refused.value)
    assert f"mode {mode:04o}" in str(refused.value)
    assert f"chmod 600 {path}" in str(refused.value)


@pytest.mark.parametrize("mode", [0o400, 0o600, 0o700])
def test_a_file_of_its_owner_alone_is_taken(tmp_path: Path, mode: int) -> None:
    assert load_keys(written(tmp_path, key_line("orders", KEY), mode))


def test_a_file_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, key_line("orders", KEY))
    owner = path.stat().st_uid
    if owner == 0:
        os.chown(path, 4711, -1)
        owner = 4711
    else:
        monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    with pytest.raises(KeyFileError, match=f"belongs to user {owner}"):
        load_keys(path)


def test_a_link_is_followed_and_what_it_leads_to_is_judged(tmp_path: Path) -> None:
    """As secrets are mounted by container platforms."""
    path = written(tmp_path, key_line("orders", KEY))
    link = tmp_path / "link"
    link.symlink_to(path)
    assert load_keys(link)
    path.chmod(0o644)
    with pytest.raises(KeyFileError, match="mode 0644"):
        load_keys(link)


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        ("orders\n", 1, "expected the name of a domain, a space and a key"),
        (f"# x\norders {HEX} {HEX}\n", 2, "expected the name of a domain, a space and a key"),
        (f"orders {HEX}\n\norders {HEX[:-1]}x\n", 3, "neither hex nor 'base64:'"),
        (f"orders base64:{BASE64[:-2]}\n", 1, "neither hex nor 'base64:'"),
        (f"orders base64:{BASE64[:12]}!!!!{BASE64[12:]}\n", 1, "neither hex nor 'base64:'"),
        (f"orders {HEX[:30]}\n", 1, "the key has 15 bytes, it needs at least 16"),
        (f"orders {HEX}\norders {HEX}\n", 2, f"this key of 'orders' is there already .{KEY.fingerprint}."),
        (f"orders {HEX}\n".encode() + b"\xff\xfe\n", 2, "this is not text in UTF-8"),
        ("# nothing\n", None, "there is no key in it"),
        ("", None, "there is no key in it"),
    ],
)
def test_a_bad_line_is_named_and_not_shown(tmp_path: Path, text: str | bytes, line: int | None, problem: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(KeyFileError, match=problem) as refused:
        load_keys(path)
    assert refused.value.line == line
    assert refused.value.path == path
    told = with_variables(refused.value)
    assert not shows(told, KEY)
    assert not shows(told, OTHER_KEY)


def test_a_domain_that_is_needed_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(KeyFileError, match="there is no key for 'payments', 'stock'"):
        load_keys(written(tmp_path, key_line("orders", KEY)), domains=["payments", "orders", "stock"])


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(KeyFileError, match="No such file"):
        load_keys(tmp_path / "missing")
    with pytest.raises(KeyFileError, match="this is not a regular file"):
        load_keys(tmp_path)
    os.mkfifo(tmp_path / "pipe", 0o600)
    with pytest.raises(KeyFileError, match="this is not a regular file"):
        load_keys(tmp_path / "pipe")
    with pytest.raises(KeyFileError, match="more than a key file has"):
        load_keys(written(tmp_path, b"#" * (1024 * 1024 + 1)))


# -- while running ----------------------------------------------------------------------------------------------------


def test_a_changed_file_brings_its_keys_into_force(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    ring = KeyRing(written(tmp_path, key_line("orders", KEY)), domains=["orders"])
    security, peer = secure(orders(keys=ring["orders"])), secure(orders(keys=OTHER_KEY))
    assert not ring.reload_if_changed()
    with pytest.raises(SecurityError):
        security.verify(peer.sign(order()))

    lines = key_line("orders", OTHER_KEY) + key_line("orders", KEY) + key_line("elsewhere", new_key())
    written(tmp_path, lines)
    assert ring.reload_if_changed()
    security.rotate_all(ring.keys)
    security.verify(peer.sign(order()))
    peer.verify(security.sign(order()))
    assert not ring.reload_if_changed()
    assert OTHER_KEY.fingerprint in caplog.text
    assert not shows(caplog.text, KEY)
    assert not shows(caplog.text, OTHER_KEY)


def test_a_file_with_the_same_keys_is_no_change(tmp_path: Path) -> None:
    ring = KeyRing(written(tmp_path, key_line("orders", KEY)))
    written(tmp_path, "# a remark\n" + key_line("orders", KEY))
    assert not ring.reload_if_changed()


def test_a_broken_file_keeps_the_old_keys_and_is_reported_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ring = KeyRing(written(tmp_path, key_line("orders", KEY)), domains=["orders"])
    broken: list[tuple[Callable[[], Any], str]] = [
        (lambda: written(tmp_path, f"orders {OTHER_KEY.reveal().hex()}zz\n"), "line 1"),
        (lambda: written(tmp_path, key_line("payments", OTHER_KEY)), "no key for 'orders'"),
        (lambda: written(tmp_path, key_line("orders", OTHER_KEY), 0o644), "chmod 600"),
        ((tmp_path / "keys").unlink, "No such file"),
    ]
    for damage, problem in broken:
        caplog.clear()
        damage()
        for _ in range(3):
            assert not ring.reload_if_changed()
            assert ring.error is not None
            assert problem in str(ring.error)
        assert ring.keys == {"orders": (KEY,)}
        assert len(caplog.records) == 1
        assert problem in caplog.text
        assert not shows(caplog.text, OTHER_KEY)
    written(tmp_path, key_line("orders", OTHER_KEY))
    assert ring.reload_if_changed()
    assert ring.error is None
    assert ring.keys == {"orders": (OTHER_KEY,)}


def test_a_changed_mode_is_noticed_and_its_repair_too(tmp_path: Path) -> None:
    path = written(tmp_path, key_line("orders", KEY))
    ring = KeyRing(path)
    path.chmod(0o644)
    assert not ring.reload_if_changed()
    assert ring.error is not None
    path.chmod(0o600)
    assert not ring.reload_if_changed()
    assert ring.error is None
