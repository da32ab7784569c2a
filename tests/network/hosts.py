"""Several hosts on one machine: network namespaces, joined by a bridge, whose cables can be pulled."""

from __future__ import annotations

import itertools
import os
import subprocess
from types import TracebackType
from typing import Self

_numbers = itertools.count()


def run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)


class Hosts:
    """So many hosts, each with an address. Needs the right to make namespaces: see `are_possible`."""

    def __init__(self, count: int) -> None:
        self._prefix = f"hop{os.getpid() % 100_000}x{next(_numbers)}"
        self._switch = f"{self._prefix}s"
        self._names = [f"{self._prefix}h{number}" for number in range(count)]
        self.addresses = [f"10.77.0.{number + 1}" for number in range(count)]

    def __enter__(self) -> Self:
        try:
            run("ip", "netns", "add", self._switch)
            run("ip", "-n", self._switch, "link", "add", "bridge", "type", "bridge")
            run("ip", "-n", self._switch, "link", "set", "bridge", "up")
            for number, (name, address) in enumerate(zip(self._names, self.addresses, strict=True)):
                run("ip", "netns", "add", name)
                port = f"port{number}"
                run(
                    "ip",
                    "-n",
                    self._switch,
                    "link",
                    "add",
                    port,
                    "type",
                    "veth",
                    "peer",
                    "name",
                    "cable",
                    "netns",
                    name,
                )
                run("ip", "-n", self._switch, "link", "set", port, "master", "bridge", "up")
                run("ip", "-n", name, "address", "add", f"{address}/24", "dev", "cable")
                run("ip", "-n", name, "link", "set", "lo", "up")
                run("ip", "-n", name, "link", "set", "cable", "up")
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._remove()

    def _remove(self) -> None:
        for name in (*self._names, self._switch):
            subprocess.run(["ip", "netns", "delete", name], check=False, capture_output=True)

    def on(self, number: int) -> list[str]:
        """Give what to put before a command so that it runs on a host."""
        return ["ip", "netns", "exec", self._names[number]]

    def pull(self, number: int) -> None:
        """Pull a host's cable: nothing comes through, and nobody is told."""
        run("ip", "-n", self._switch, "link", "set", f"port{number}", "nomaster")

    def plug(self, number: int) -> None:
        """Plug it in again."""
        run("ip", "-n", self._switch, "link", "set", f"port{number}", "master", "bridge")


def are_possible() -> bool:
    """Tell whether this machine lets us make hosts."""
    try:
        with Hosts(1):
            return True
    except (OSError, subprocess.CalledProcessError):
        return False
