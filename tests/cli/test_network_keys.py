"""Commands that ask a network whose keys they do not have."""

from __future__ import annotations

from pathlib import Path

from tests.cli.commands import Command, prepare, run

DOMAIN = '[security]\nkey_file = "{keys}"\n[[security.domains]]\nname = "{name}"\nidentities = ["Greet", "Greeting"]\n'


def test_wrong_or_missing_keys_are_told_by_every_command_that_asks_a_network(tmp_path: Path) -> None:
    prepare(tmp_path)
    plain = (tmp_path / "hopline.toml").read_text()
    for name, keys in (("greetings", "keys"), ("greetings", "others"), ("news", "news")):
        assert run(tmp_path, "keys", "new", keys, name).returncode == 0
    (tmp_path / "signed.toml").write_text(plain + DOMAIN.format(keys="keys", name="greetings"))
    (tmp_path / "wrong.toml").write_text(plain + DOMAIN.format(keys="others", name="greetings"))
    (tmp_path / "missing.toml").write_text(plain + DOMAIN.format(keys="news", name="news"))
    with Command(tmp_path, "node", "--app", "greeter:make_later", "--embedded", "--config", "signed.toml") as node:
        node.line("is ready")
        assert run(tmp_path, "stats", "--config", "signed.toml").returncode == 0
        send = ("send", "Greet", '{"name": "a"}', "--callback", "Greeting")
        asked = [("wrong", ("stats",)), ("wrong", ("routes",)), ("wrong", send)]
        asked += [("missing", ("stats", "--json")), ("hopline", ("stats",)), ("hopline", send)]
        for config, command in asked:
            done = run(tmp_path, *command, "--config", f"{config}.toml")
            assert (done.returncode, done.stdout) == (1, ""), (config, command, done.stderr)
            assert "refused: no key of domain 'greetings'" in done.stderr, (config, command)
            assert len(done.stderr.splitlines()) == 1, done.stderr
        node.line("the keys differ; from now on this is only counted")
        assert node.stop() == 0
