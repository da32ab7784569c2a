"""The course of the demonstration, from the first process to the report.

1. A rendezvous server and three nodes are started, each in a process of its own, with signatures and capture. A stream
   of the pipeline follows the captures.
2. Customers place orders. Meanwhile an attacker sends forged messages to the node `payments`, which is then killed and
   restarted: a thread waits for the share of orders at which each of these happens.
3. The capture of the killed node is recovered, the stream reads what is left, and `findings` reads the tables.
4. The batch job makes the tables again, of the same captures, and they must be equal to those of the stream.

Whatever happens, every process is ended. An interrupted demonstration removes its directory; a failed one keeps it for
its logs.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from hopline.demo.few_rows import write_spark_defaults
from hopline.demo.findings import findings
from hopline.demo.processes import DemoError, Process, ProcessGroup, free_addresses, process_group, relative
from hopline.demo.shop import IDENTITIES
from hopline.explorer.freshness import last_state
from hopline.message import printable
from hopline.pipeline.stream.state import Totals
from hopline.query.comparison import compare_tables

DOMAIN = "shop"
NODES = ("front", "warehouse", "payments")
ATTACK_AT, KILL_AT, RESTART_AT = 0.35, 0.55, 0.58  # shares of the orders placed
_FLUSHED_WITHIN = 2.0  # seconds until a record is on disk: several times the default of flush_time
_POLL_INTERVAL = 0.05
_MARKER = "hopline-demo"  # the file that marks a directory as one of an earlier demonstration
_INDENT = " " * 10
_LINE_WIDTH = 80


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """The options of the demonstration."""

    directory: Path
    orders: int = 2_000
    rate: float = 100.0
    """Orders per second."""
    explore: bool = True
    """Serve the explorer at the end, if standard input and output are a terminal."""


def prepare(directory: Path) -> None:
    """Create an empty directory; replace that of an earlier demonstration.

    Raises:
        DemoError: If the directory has other content.
    """
    marker = directory / _MARKER
    if directory.exists() and any(directory.iterdir()):
        if not marker.is_file():
            raise DemoError(f"{directory} exists and is not of an earlier demo: name another with --directory")
        shutil.rmtree(directory)
    directory.mkdir(parents=True, exist_ok=True)
    marker.write_text("Made by `hopline demo`, which replaces this directory when it runs again.\n")


def run_demo(options: DemoOptions, console: Console) -> None:
    """Run the demonstration, and serve the explorer at its end."""
    prepare(options.directory)
    try:
        _Demo(options, console).run()
    except BaseException:
        if not isinstance(sys.exception(), DemoError):  # a `DemoError` names a log in the directory
            shutil.rmtree(options.directory, ignore_errors=True)
        raise
    is_interactive = console.is_terminal and sys.stdin.isatty()
    if options.explore and is_interactive:
        explore(options.directory, console)


def explore(directory: Path, console: Console) -> None:
    """Serve the explorer over the tables until Enter or Ctrl-C is pressed."""
    tables = str(directory / "tables")
    captures = str(directory / "captures")
    command = [sys.executable, "-m", "hopline", "explore", tables, "--captures", captures, "--no-open"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as explorer:  # noqa: S603 - our own
        assert explorer.stdout is not None  # noqa: S101 - a pipe
        try:
            words = explorer.stdout.readline().split()
            if words:
                address = words[0]
                console.print(f"{_INDENT}explorer: {address} until you press Enter", soft_wrap=True)
                sys.stdin.readline()
        except KeyboardInterrupt:  # the explorer has received it, too
            console.print()
        finally:
            explorer.terminate()


class _Demo:
    def __init__(self, options: DemoOptions, console: Console) -> None:
        self._options = options
        self._console = console
        self._home = options.directory
        self._captures = self._home / "captures"
        self._tables = self._home / "tables"
        self._batch_tables = self._home / "batch"
        names = ("rendezvous", "unicast", "partner", *NODES)
        addresses = free_addresses(len(names))
        self._addresses = dict(zip(names, addresses, strict=True))
        # The shop has few rows; whoever has settings of their own for Spark keeps them.
        self._environment = {"SPARK_CONF_DIR": str((self._home / "spark").resolve()), **os.environ}
        self._started_at = time.monotonic()
        self._placed = 0
        self._is_over = threading.Event()

    def run(self) -> None:
        write_spark_defaults(self._home / "spark")
        with process_group(self._home / "logs", self._environment) as processes:
            self._start_network(processes)
            with self._following(processes) as stream:
                self._place_orders(processes)
                self._heading("Recover what the killed node left behind, and let the stream finish")
                self._recover()
                self._finish(stream)
        self._show_findings()
        self._confirm()
        self._write_report()

    def _heading(self, text: str) -> None:
        seconds = time.monotonic() - self._started_at
        self._console.print(f"[{seconds:5.1f} s] {text}", style="bold", soft_wrap=True)

    def _line(self, text: str) -> None:
        self._console.print(f"{_INDENT}{printable(text)}", soft_wrap=True)

    # -- the network ---------------------------------------------------------------------------------------------------

    def _start_network(self, processes: ProcessGroup) -> None:
        self._heading("Start a rendezvous server and three nodes, each in its own process")
        keys = self._home / "keys.txt"
        key_maker = processes.hopline("keys", "keys", "new", str(keys), DOMAIN)
        if key_maker.wait():
            raise DemoError(f"no keys could be made, see {self._home / 'logs'}")
        for name in ("rendezvous", *NODES):
            file = Path(self._config(name))
            file.write_text(self._configuration(name), encoding="utf-8")
        rendezvous = processes.hopline("rendezvous", "rendezvous", "--config", self._config("rendezvous"))
        rendezvous.wait_for("ready")
        address = self._addresses["rendezvous"]
        self._line(f"rendezvous  at {address}, pid {rendezvous.pid}")
        self._nodes: dict[str, Process] = {}
        for name in NODES[1:]:
            self._nodes[name] = self._start_node(processes, name)

    def _start_node(self, processes: ProcessGroup, name: str, *, is_shown: bool = True) -> Process:
        application = f"hopline.demo.shop:{name}"
        options = ("--config", self._config(name), "--log-level", "warning")
        process = processes.hopline(name, "node", "--app", application, *options)
        process.wait_for("is ready")
        address = self._addresses[name]
        if is_shown:
            self._line(f"{name:<11} at {address}, pid {process.pid}, signs and captures")
        return process

    def _config(self, name: str) -> str:
        return str(self._home / f"{name}.toml")

    def _configuration(self, name: str) -> str:
        """Return the configuration of one process, as a user would write it."""
        addresses = self._addresses
        if name == "rendezvous":
            return f"""\
[rendezvous]
address = "{addresses["rendezvous"]}"
unicast_address = "{addresses["unicast"]}"
partner_address = "{addresses["partner"]}"
"""
        return f"""\
[node]
identity = "{name}"
address = "{addresses[name]}"
rendezvous = [{{ broadcast_uri = "{addresses["rendezvous"]}", unicast_uri = "{addresses["unicast"]}" }}]

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

    # -- orders and incidents ------------------------------------------------------------------------------------------

    def _place_orders(self, processes: ProcessGroup) -> None:
        orders = self._options.orders
        rate = self._options.rate
        self._heading(f"Place {orders:,} orders, {rate:,.0f} per second; callers wait 2 s for an answer")
        arguments = ("-m", "hopline.demo.customers", self._config("front"), str(orders), str(rate))
        front = processes.python("front", *arguments, is_read=True)
        counts: dict[str, int] = {}
        with self._progress() as progress, ThreadPoolExecutor(1) as executor:
            try:  # the executor waits for its task, which must end on Ctrl-C, too
                bar = progress.add_task("orders", total=orders, counts="")
                incidents = executor.submit(self._cause_incidents, processes)
                for line in front.lines():
                    counts = json.loads(line).get("counts", counts)
                    self._placed = counts.get("placed", 0)
                    progress.update(bar, completed=self._placed, counts=_counts_text(counts))
                    if incidents.done():
                        incidents.result()
                incidents.result()
            finally:
                self._is_over.set()
        if front.wait():
            raise DemoError(f"the process of the customers failed, see {front.log}")
        self._line(f"results as the callers saw them: {_counts_text(counts)}")
        for process in reversed(self._nodes.values()):  # a node stops before those that it sends to
            process.stop()

    def _cause_incidents(self, processes: ProcessGroup) -> None:
        incidents = (
            (ATTACK_AT, self._attack_payments),
            (KILL_AT, self._kill_payments),
            (RESTART_AT, self._restart_payments),
        )
        for share, incident in incidents:
            due = share * self._options.orders
            while self._placed < due:
                if self._is_over.wait(_POLL_INTERVAL):
                    return
            incident(processes)

    def _progress(self) -> Progress:
        return Progress(
            TextColumn(f"{_INDENT}{{task.description}}"),
            BarColumn(bar_width=12),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[counts]}"),
            console=self._console,
            transient=True,
            disable=not self._console.is_terminal,
        )

    def _attack_payments(self, processes: ProcessGroup) -> None:
        arguments = (self._addresses["payments"], DOMAIN, str(self._captures), "payments")
        forger = processes.python("forger", "-m", "hopline.demo.forger", *arguments, is_read=True)
        for line in forger.lines():
            self._line("an attacker without a key sends to payments:")
            counts = json.loads(line)
            self._line(f"  {_counts_text(counts)}")
        if forger.wait():
            raise DemoError(f"the process of the attacker failed, see {forger.log}")
        self._is_over.wait(_FLUSHED_WITHIN)  # payments is killed next, and must have written its records

    def _kill_payments(self, _: ProcessGroup) -> None:
        self._nodes["payments"].kill()
        self._line("payments is killed (kill -9) while it handles orders, and restarted")

    def _restart_payments(self, processes: ProcessGroup) -> None:
        self._nodes["payments"] = self._start_node(processes, "payments", is_shown=False)

    # -- the stream ----------------------------------------------------------------------------------------------------

    @contextmanager
    def _following(self, processes: ProcessGroup) -> Iterator[Process]:
        """Run a stream of the pipeline beside the shop, which comes first where both want the processor."""
        self._heading("Follow the captures with Spark while the shop is open")
        captures = relative(self._captures)
        options = ("--trigger", "5", *self._table_options(self._tables), "--final")
        self._captures.mkdir(exist_ok=True)
        stream = processes.hopline("stream", *self._command("pipeline", "stream", captures, *options))
        stream.lower_priority()
        try:
            yield stream
        finally:
            stream.interrupt()

    def _finish(self, stream: Process) -> None:
        """Let the stream read what is left, and close all flows."""
        before = self._streamed()
        with self._console.status(Text("reading what is left")):
            if stream.finish():
                raise DemoError(f"hopline pipeline stream failed, see {stream.log}")
        after = self._streamed()
        records = f"{after.records:,} records are in the tables, {before.records:,} were before"
        self._line(f"{records}; {after.late:,} came late")

    def _streamed(self) -> Totals:
        state = last_state(self._tables)
        return Totals() if state is None else state.totals

    # -- captures, tables, report --------------------------------------------------------------------------------------

    def _command(self, *arguments: str) -> Sequence[str]:
        """Show a ``hopline`` command, and return its arguments."""
        for line in _wrapped_command("$ hopline", *arguments):
            self._console.print(f"{_INDENT}{line}", style="cyan", soft_wrap=True)
        return arguments

    def _table_options(self, tables: Path) -> Sequence[str]:
        """Return the options that the stream and the batch job share."""
        return "--out", relative(tables), "--keys", relative(self._home / "front.toml")

    def _output_of(self, *arguments: str) -> Iterator[str]:
        """Run a ``hopline`` command, and yield the lines that it writes.

        Raises:
            DemoError: If the command fails; its output is in the log that the text names.
        """
        self._command(*arguments)
        name = arguments[0]
        log = self._home / "logs" / f"{name}.log"
        command = [sys.executable, "-m", "hopline", *arguments]
        with (
            log.open("a", encoding="utf-8") as file,
            subprocess.Popen(  # noqa: S603 - our own
                command, stdout=subprocess.PIPE, stderr=file, text=True, env=self._environment
            ) as process,
        ):
            assert process.stdout is not None  # noqa: S101 - a pipe
            try:
                for line in process.stdout:
                    file.write(line)
                    yield line.rstrip("\n")
                code = process.wait()
            except KeyboardInterrupt:  # the command has received it, too, and cleans up
                process.wait()
                raise
        if code:
            raise DemoError(f"hopline {name} failed, see {log}")

    def _recover(self) -> None:
        for line in self._output_of("capture", "recover", relative(self._captures)):
            result, _, _ = line.partition(": ")
            self._line(result if result.startswith("recovered") else line)

    def _confirm(self) -> None:
        """Make the tables again with the batch job, and compare."""
        self._heading("Make the tables again with the batch job, to compare")
        captures = relative(self._captures)
        options = self._table_options(self._batch_tables)
        with self._console.status(Text("starting Spark")) as status:
            for line in self._output_of("pipeline", "run", captures, *options):
                status.update(Text(printable(line)))
        comparisons = compare_tables(self._tables, self._batch_tables)
        differences = [str(each) for each in comparisons if not each.is_equal]
        if differences:
            raise DemoError(f"the stream and the batch job have made different tables: {'; '.join(differences)}")
        rows = sum(each.batch for each in comparisons)
        self._line(f"the stream's {len(comparisons)} tables are equal to the batch job's: {rows:,} rows")

    def _show_findings(self) -> None:
        self._heading("Ask the tables")
        for finding in findings(Path(relative(self._tables))):
            self._console.print(f"  {finding.question}", style="bold green")
            for line in finding.lines:
                self._console.print(f"    {printable(line)}", soft_wrap=True)
            for line in _wrapped_command("$", *shlex.split(finding.command), indent=4):
                self._console.print(f"    {printable(line)}", style="cyan", soft_wrap=True)

    def _write_report(self) -> None:
        self._heading("Write a report")
        tables = relative(self._tables)
        captures = relative(self._captures)
        report = relative(self._home / "report.html")
        report_uri = Path(report).resolve().as_uri()
        for _ in self._output_of("report", tables, "-o", report):
            self._line(f"open it in a browser: {report_uri}")
        self._command("explore", tables, "--captures", captures)
        self._heading(f"Done. Captures, tables, report, keys and logs are in {relative(self._home)}")


def _wrapped_command(*words: str, indent: int = len(_INDENT)) -> Iterator[str]:
    """Yield a command in lines that fit the terminal, indented, and that a shell takes as one."""
    first, *arguments = words
    line = first
    parts = list(_with_values(arguments))
    for number, part in enumerate(parts, 1):
        is_last = number == len(parts)
        longer_line = f"{line} {part}" if is_last else f"{line} {part} \\"
        if indent + len(longer_line) > _LINE_WIDTH:
            yield f"{line} \\"
            line = f"    {part}"
        else:
            line = f"{line} {part}"
    yield line


def _with_values(arguments: list[str]) -> Iterator[str]:
    """Yield quoted arguments, and options together with their values, which stay on one line."""
    option = ""
    for argument in arguments:
        if not argument.startswith("-"):
            yield f"{option} {_quoted(argument)}".lstrip()
            option = ""
            continue
        if option:
            yield option
        option = argument
    if option:
        yield option


def _quoted(argument: str) -> str:
    """Quote an argument for a shell, with double quotes where it has single ones, as in SQL."""
    if "'" in argument and not set(argument) & set('"$`\\'):
        return f'"{argument}"'
    return shlex.quote(argument)


def _counts_text(counts: dict[str, int]) -> str:
    parts = []
    for name, count in counts.items():
        if count and name != "placed":
            parts.append(f"{count:,} {name}")
    return ", ".join(parts)
