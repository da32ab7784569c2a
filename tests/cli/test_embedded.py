"""Two terminals and nothing else: `--embedded`."""

from __future__ import annotations

from pathlib import Path

from tests.cli.commands import Command, prepare, run


def test_when_the_one_who_serves_is_killed_another_takes_over(tmp_path: Path) -> None:
    prepare(tmp_path)
    arguments = ("node", "--app", "greeter:Greeter", "--embedded")
    with Command(tmp_path, *arguments) as first:
        assert "(this node itself)" in first.line("follows")
        with Command(tmp_path, *arguments) as second:
            assert "(joined)" in second.line("follows")
            first.__exit__(None, None, None)  # killed, as by a crash
            second.line("this node serves as the rendezvous")
            with Command(tmp_path, *arguments) as third:
                assert "(joined)" in third.line("follows")
                sent = run(tmp_path, "send", "Greet", '{"name": "you"}', "--callback", "Greeting")
                assert sent.returncode == 0, sent.stderr
                assert third.stop() == 0
            assert second.stop() == 0
