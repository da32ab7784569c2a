"""The evening of the shop: it opens, customers come, a forger too, a node dies; then Spark tells what happened."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from hopline.demo.findings import findings
from hopline.demo.shop import IDENTITIES
from hopline.demo.stage import DemoError, Process, Stage, free_addresses, shown, stage
from hopline.message import printable

DOMAIN = "shop"
NODES = ("front", "warehouse", "payments")
FORGER_COMES, NODE_DIES, NODE_RETURNS = 0.35, 0.55, 0.58  # shares of the orders placed
_CAPTURED_WITHIN = 2.0  # seconds after which a record outlives its node: several times the default of flush_time
_LOOK = 0.05  # seconds between looks how far the evening is
_MARK = "hopline-demo"  # the file that tells a directory of ours from somebody else's


@dataclass(frozen=True, slots=True)
class Evening:
    """What the demonstration is to be like."""

    directory: Path
    orders: int = 2_000
    rate: float = 100.0
    """Orders a second."""
    explore: bool = True
    """Serve the explorer at the end, until somebody at the terminal has seen enough."""


def prepare(directory: Path) -> None:
    """Make the directory anew. One that is not ours is left alone."""
    if directory.exists() and any(directory.iterdir()):
        if not (directory / _MARK).is_file():
            raise DemoError(
                f"{directory} is there already and is not of an earlier demo: name another with --directory"
            )
        shutil.rmtree(directory)
    directory.mkdir(parents=True, exist_ok=True)
    (directory / _MARK).write_text("Made by `hopline demo`, which replaces this directory when it runs again.\n")


def tell(evening: Evening, console: Console) -> None:
    """Tell the whole story. Interrupted, it leaves nothing behind."""
    prepare(evening.directory)
    try:
        _Story(evening, console).tell()
    except BaseException:
        if not isinstance(sys.exception(), DemoError):  # its logs may be needed
            shutil.rmtree(evening.directory, ignore_errors=True)
        raise
    if evening.explore and console.is_terminal and sys.stdin.isatty():
        explore(evening.directory, console)


def explore(home: Path, console: Console) -> None:
    """Serve the explorer over the tables until Enter is pressed, or Ctrl-C."""
    command = [sys.executable, "-m", "hopline", "explore", str(home / "tables"), "--captures", str(home / "captures")]
    with subprocess.Popen([*command, "--no-open"], stdout=subprocess.PIPE, text=True) as explorer:  # noqa: S603 - our own
        try:
            address = explorer.stdout.readline().split() if explorer.stdout else []
            if address:
                console.print(f"          the explorer is at {address[0]} until you press Enter", soft_wrap=True)
                sys.stdin.readline()
        except KeyboardInterrupt:  # it was told as well
            console.print()
        finally:
            explorer.terminate()


class _Story:
    def __init__(self, evening: Evening, console: Console) -> None:
        self._evening = evening
        self._console = console
        self._home = evening.directory
        self._captures, self._tables = self._home / "captures", self._home / "tables"
        self._addresses = dict(zip(("rendezvous", "unicast", "partner", *NODES), free_addresses(6), strict=True))
        self._began = time.monotonic()
        self._placed = 0
        self._is_over = threading.Event()

    def tell(self) -> None:
        with stage(self._home / "logs") as on_stage:
            self._open_the_shop(on_stage)
            self._trade(on_stage)
        self._recover()
        self._ask_spark()
        self._tell_findings()
        self._report()

    # -- the network ---------------------------------------------------------------------------------------------------

    def _chapter(self, text: str) -> None:
        self._console.print(f"\n[{time.monotonic() - self._began:5.1f} s] {text}", style="bold", soft_wrap=True)

    def _line(self, text: str) -> None:
        self._console.print(f"          {text}", soft_wrap=True)

    def _open_the_shop(self, on_stage: Stage) -> None:
        self._chapter("A shop opens: a rendezvous, and three nodes in processes of their own")
        keys = self._home / "keys.txt"
        if on_stage.hopline("keys", "keys", "new", str(keys), DOMAIN).finish():
            raise DemoError(f"no keys could be made, see {self._home / 'logs'}")
        for name in ("rendezvous", *NODES):
            (self._home / f"{name}.toml").write_text(self._configuration(name), encoding="utf-8")
        rendezvous = on_stage.hopline("rendezvous", "rendezvous", "--config", self._config("rendezvous"))
        rendezvous.wait_for("ready")
        self._line(f"rendezvous  at {self._addresses['rendezvous']}, pid {rendezvous.pid}")
        self._others = {name: self._start(on_stage, name) for name in NODES[1:]}

    def _start(self, on_stage: Stage, name: str) -> Process:
        process = on_stage.hopline(
            name, "node", "--app", f"hopline.demo.shop:{name}", "--config", self._config(name), "--log-level", "warning"
        )
        process.wait_for("is ready")
        self._line(f"{name:<11} at {self._addresses[name]}, pid {process.pid}, signs and captures everything")
        return process

    def _config(self, name: str) -> str:
        return str(self._home / f"{name}.toml")

    def _configuration(self, name: str) -> str:
        """Write the configuration of one process, as a user would."""
        where = self._addresses
        if name == "rendezvous":
            addresses = {"address": "rendezvous", "unicast_address": "unicast", "partner_address": "partner"}
            lines = [f'{key} = "{where[value]}"' for key, value in addresses.items()]
            return "\n".join(["[rendezvous]", *lines, ""])
        return f"""\
[node]
identity = "{name}"
address = "{where[name]}"
rendezvous = [{{ broadcast_uri = "{where["rendezvous"]}", unicast_uri = "{where["unicast"]}" }}]

[node.cluster]
heartbeat_interval = 1.0

[capture]
directory = "{self._captures.resolve()}"
level = "full"
segment_time = 2.0

[security]
key_file = "keys.txt"

[[security.domains]]
name = "{DOMAIN}"
identities = {json.dumps(IDENTITIES)}
refuse_replays = true
"""

    # -- the evening ---------------------------------------------------------------------------------------------------

    def _trade(self, on_stage: Stage) -> None:
        orders, rate = self._evening.orders, self._evening.rate
        self._chapter(f"{orders:,} customers order: priced, reserved, charged, shipped; each waits 2 s for the parcel")
        front = on_stage.python(
            "front", "-m", "hopline.demo.customers", self._config("front"), str(orders), str(rate), is_heard=True
        )
        told: dict[str, int] = {}
        with self._progress() as progress, ThreadPoolExecutor(1) as behind_the_scenes:
            try:  # Ctrl-C may come at any time, and the executor waits for what it was given
                bar = progress.add_task("orders", total=orders, told="")
                incidents = behind_the_scenes.submit(self._let_things_happen, on_stage)
                for line in front.lines():
                    told = json.loads(line).get("told", told)
                    self._placed = told.get("placed", 0)
                    progress.update(bar, completed=self._placed, told=_summed(told))
                    if incidents.done():
                        incidents.result()
                incidents.result()
            finally:
                self._is_over.set()
        if front.finish():
            raise DemoError(f"the customers' process failed, see {front.log}")
        self._line(f"the customers say: {_summed(told)}")
        for process in reversed(self._others.values()):  # whom the others still need goes last
            process.stop()

    def _let_things_happen(self, on_stage: Stage) -> None:
        for share, incident in (
            (FORGER_COMES, self._forge),
            (NODE_DIES, self._kill_payments),
            (NODE_RETURNS, self._restart_payments),
        ):
            while self._placed < share * self._evening.orders:
                if self._is_over.wait(_LOOK):
                    return
            incident(on_stage)

    def _progress(self) -> Progress:
        return Progress(
            TextColumn("          {task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[told]}"),
            console=self._console,
            transient=True,
        )

    def _forge(self, on_stage: Stage) -> None:
        forger = on_stage.python(
            "forger",
            "-m",
            "hopline.demo.forger",
            self._addresses["payments"],
            DOMAIN,
            str(self._captures),
            "payments",
            is_heard=True,
        )
        for line in forger.lines():
            self._line(f"somebody sends to payments: {_summed(json.loads(line))}")
        if forger.finish():
            raise DemoError(f"the forger failed, see {forger.log}")
        self._is_over.wait(_CAPTURED_WITHIN)  # or who dies next would take to the grave what it has just seen

    def _kill_payments(self, _: Stage) -> None:
        self._others["payments"].kill()
        self._line("payments is killed (kill -9), with orders in its hands")

    def _restart_payments(self, on_stage: Stage) -> None:
        self._others["payments"] = self._start(on_stage, "payments")

    # -- afterwards ----------------------------------------------------------------------------------------------------

    def _run(self, *arguments: str) -> int:
        """Run a command where the reader sees it."""
        self._console.print(f"          $ hopline {' '.join(arguments)}", style="cyan", soft_wrap=True)
        command = subprocess.Popen([sys.executable, "-m", "hopline", *arguments])  # noqa: S603 - our own
        try:
            return command.wait()
        except KeyboardInterrupt:  # it was told as well, and cleans up
            command.wait()
            raise

    def _recover(self) -> None:
        self._chapter("What the killed node had not closed is recovered")
        self._run("capture", "recover", shown(self._captures))

    def _ask_spark(self) -> None:
        self._chapter("Spark turns the captured traffic into tables")
        code = self._run(
            "pipeline",
            "run",
            shown(self._captures),
            "--out",
            shown(self._tables),
            "--keys",
            shown(self._home / "front.toml"),
        )
        if code:
            raise DemoError("the pipeline failed, see above")

    def _tell_findings(self) -> None:
        self._chapter("What the tables say")
        for finding in findings(Path(shown(self._tables))):
            self._console.print(f"\n  {finding.question}", style="bold green")
            for line in finding.lines:
                self._console.print(f"    {printable(line)}", soft_wrap=True)
            self._console.print(f"    more: {printable(finding.command)}", style="cyan", soft_wrap=True)

    def _report(self) -> None:
        self._chapter("The same to look at, in one file")
        report = shown(self._home / "report.html")
        if self._run("report", shown(self._tables), "-o", report) == 0:
            self._line(f"open it in a browser: {Path(report).resolve().as_uri()}")
            self._line(f"or look around: hopline explore {shown(self._tables)} --captures {shown(self._captures)}")
        self._chapter(
            f"The end. Everything is in {shown(self._home)}: captures, tables, report, keys, logs, configuration"
        )


def _summed(told: dict[str, int]) -> str:
    return ", ".join(f"{count:,} {what}" for what, count in told.items() if what != "placed" and count)
