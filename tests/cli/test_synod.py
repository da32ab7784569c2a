"""Three rendezvous servers from the command line: one leads, and when it is killed another does."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from tests.cli.commands import APPLICATION, Command, run
from tests.network.processes import LEASE, free_ports, until

COUNT = 3


def test_when_the_leader_is_killed_another_leads_and_messages_go_on(tmp_path: Path) -> None:
    addresses = [f"tcp://127.0.0.1:{port}" for port in free_ports(4 * COUNT)]
    publishing, listening, partner, synod = (addresses[at::4] for at in range(4))
    (tmp_path / "greeter.py").write_text(APPLICATION)
    (tmp_path / "hopline.toml").write_text(
        "\n".join(
            [
                "[node]",
                "rendezvous = [",
                *(
                    f'  {{ broadcast_uri = "{broadcast}", unicast_uri = "{unicast}" }},'
                    for broadcast, unicast in zip(publishing, listening, strict=True)
                ),
                "]",
                "[node.cluster]",
                "rendezvous_silence = 3",
                "rendezvous_reconnect = 0.3",
                "probe_timeout = 1",
                "[rendezvous.lease]",
                *(f"{name} = {value}" for name, value in LEASE.items()),
            ]
        )
    )
    members = [option for member in synod for option in ("--synod", member)]
    with ExitStack() as stack:
        servers = [
            stack.enter_context(
                Command(
                    tmp_path,
                    *("rendezvous", "--address", publishing[at], "--synod-address", synod[at], *members),
                    env={
                        "HOPLINE_RENDEZVOUS__UNICAST_ADDRESS": listening[at],
                        "HOPLINE_RENDEZVOUS__PARTNER_ADDRESS": partner[at],
                    },
                )
            )
            for at in range(COUNT)
        ]

        def leaders() -> list[Command]:
            return [server for server in servers if _leads(server)]

        until(lambda: len(leaders()) == 1, what="one server leads")
        node = stack.enter_context(Command(tmp_path, "node", "--app", "greeter:Greeter"))
        assert "(joined)" in node.line("follows")
        sent = ("send", "Greet", '{"name": "you"}', "--callback", "Greeting", "--timeout", "20")
        assert run(tmp_path, *sent).returncode == 0
        (leader,) = leaders()
        servers.remove(leader)
        leader.__exit__(None, None, None)  # killed, as by a crash
        until(lambda: len(leaders()) == 1, what="another server leads")
        done = run(tmp_path, *sent, env={"HOPLINE_NODE__JOIN_TIMEOUT": "20"})
        assert done.returncode == 0, done.stderr
        assert node.stop() == 0


def _leads(server: Command) -> bool:
    told = [line for line in list(server.lines) if "this server " in line]
    return bool(told) and told[-1].endswith("this server leads")
