"""A Spark session with the settings that the pipeline counts on, here, on a cluster or through Spark Connect."""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path
from subprocess import TimeoutExpired
from tempfile import TemporaryDirectory

from pyspark import SparkContext
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from hopline.message import ArgumentError, get_logger
from hopline.pipeline.failures import RequirementError
from hopline.pipeline.java import find_java
from hopline.pipeline.shipping import ship

HERE = "local[*]"
MEMORY = "2g"  # the JVM's heap; with what it needs beside it, and the Python workers, within 4 GiB
END_WITHIN_S = 30.0
SHUFFLE_PARTITIONS_HERE = 32  # what is too small is put together while the query runs

# What every session gets, whoever started it: the tables' dates are UTC, Python is fed by Arrow.
QUERY_SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.adaptive.enabled": "true",
    # What is kept for several tables may have fewer partitions where there are few rows.
    "spark.sql.optimizer.canChangeCachedPlanOutputPartitioning": "true",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # What is longer Java never compiles, but interprets for ever: Spark has to cut it up instead.
    "spark.sql.codegen.hugeMethodLimit": "8000",
}

# What can be set only when a session starts.
_STARTING_SETTINGS = {
    # Every column would ask Java for the line of Python that made it.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
}

_QUIET_LOG = Path(__file__).parent / "log4j2.properties"
_COLLECTOR = re.compile(r"-XX:\+Use\w+GC\b")  # Java takes one, and refuses to start with two
_CONNECT_MODULES = ("grpc", "grpc_status", "google.rpc", "zstandard")

_log = get_logger(__name__)


@contextmanager
def spark_session(
    master: str | None = None,
    *,
    remote: str | None = None,
    app_name: str = "hopline",
    memory: str = MEMORY,
    config: Mapping[str, str] | None = None,
    ui: bool = False,
    verbose: bool = False,
) -> Iterator[SparkSession]:
    """Open a session for as long as the block runs: on `master` (this machine by default), or of the server `remote`.

    Where Spark already runs in this process, as in a notebook, it is used, in a session of its own, and left running:
    `master` and `memory` are then as it was started. `memory` is the driver's. `config` wins over all that is set here.
    `verbose` leaves Spark's log as it is; without, only errors that no exception tells are printed.
    """
    config = dict(config or {})
    if master and remote:
        raise ArgumentError("master", "none beside remote", master)
    if not remote and (running := _running()) is not None:
        session = running.newSession()
        _ship_if_far(session)
        yield _configured(session, QUERY_SETTINGS | config)
        return
    with ExitStack() as stack:
        if remote := remote or (None if master else os.environ.get("SPARK_REMOTE")):
            session = _connect(stack, remote, app_name, config)
        elif "PYSPARK_GATEWAY_PORT" in os.environ:  # spark-submit has started the JVM, and was told where to run
            session = _start(stack, app_name, QUERY_SETTINGS | config)
        else:
            session = _launch(stack, master or HERE, app_name, memory, config, ui=ui, verbose=verbose)
        yield session


def runs_here(master: str) -> bool:
    """Return whether this master is the driver itself, which has every file and package already."""
    return master.split("[")[0] == "local"


def _running() -> SparkSession | None:
    if SparkContext._active_spark_context is not None:  # of any thread; the active session is this thread's
        return SparkSession.builder.getOrCreate()
    return SparkSession.getActiveSession()


def _launch(
    stack: ExitStack, master: str, app_name: str, memory: str, config: dict[str, str], *, ui: bool, verbose: bool
) -> SparkSession:
    scratch = stack.enter_context(TemporaryDirectory(prefix="hopline-spark-", ignore_cleanup_errors=True))
    environment = find_java().environment()
    options = [f'"-Djava.io.tmpdir={scratch}"', f'"-Dderby.system.home={scratch}"']  # there may be spaces in it
    if not _COLLECTOR.search(config.get("spark.driver.extraJavaOptions", "")):
        options.append("-XX:+UseParallelGC")  # rows are dead soon: the default pays on every write for short pauses
    if not verbose:
        options.append(f"-Dlog4j2.configurationFile={_QUIET_LOG.as_uri()}")
    settings = QUERY_SETTINGS | {
        "spark.master": master,
        "spark.driver.memory": memory,
        "spark.ui.enabled": str(ui).lower(),
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.warehouse.dir": f"{scratch}/warehouse",
        # Arrow gives memory back that the next batch wants again: to get it anew costs workers a tenth of their time.
        "spark.executorEnv.MIMALLOC_PURGE_DELAY": "-1",
    }
    if runs_here(master):
        settings |= {
            "spark.sql.shuffle.partitions": str(SHUFFLE_PARTITIONS_HERE),
            # A few files of middling size are as many tasks: two or three tasks of several files are never even.
            "spark.sql.files.maxPartitionBytes": "16m",
            "spark.sql.files.openCostInBytes": "1m",
        }
        environment["PYSPARK_PYTHON"] = sys.executable  # Spark takes the first python3 on the path otherwise
    if runs_here(master) or master.startswith(("spark://127.0.0.1:", "spark://localhost:")):
        settings |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
        environment["SPARK_LOCAL_IP"] = "127.0.0.1"
    settings |= config
    # Options that the caller adds come last: Java takes the last one where two disagree.
    settings["spark.driver.extraJavaOptions"] = " ".join(
        [*options, config.get("spark.driver.extraJavaOptions", "")]
    ).rstrip()
    stack.callback(_end_jvm)
    with _environment(environment):
        return _start(stack, app_name, settings)


def _start(stack: ExitStack, app_name: str, settings: Mapping[str, str]) -> SparkSession:
    if threading.current_thread() is threading.main_thread():
        # Spark's handler cancels the jobs; behind the session's end there is nothing to cancel.
        stack.callback(signal.signal, signal.SIGINT, signal.getsignal(signal.SIGINT))
    builder = SparkSession.builder.appName(app_name)
    for name, value in (_STARTING_SETTINGS | dict(settings)).items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    stack.callback(session.stop)
    _ship_if_far(session)
    return session


def _ship_if_far(session: SparkSession) -> None:
    if is_remote() or not runs_here(session.conf.get("spark.master") or HERE):
        ship(session)


def _connect(stack: ExitStack, remote: str, app_name: str, config: dict[str, str]) -> SparkSession:
    if not remote.startswith("sc://"):
        raise ArgumentError("remote", "the address of a Spark Connect server, as sc://host:port", remote)
    if missing := [name for name in _CONNECT_MODULES if not _there(name)]:
        raise RequirementError(
            f"Spark Connect needs {', '.join(missing)}, not installed here", "pip install 'hopline[connect]'"
        )
    # pyspark remembers in the environment that it is a client now, and would never be anything else again.
    stack.enter_context(_environment({"SPARK_CONNECT_MODE_ENABLED": "1"}))
    session = SparkSession.builder.remote(remote).appName(app_name).create()
    stack.callback(session.stop)
    ship(session)
    return _configured(session, QUERY_SETTINGS | config)


def _configured(session: SparkSession, settings: Mapping[str, str]) -> SparkSession:
    for name, value in settings.items():
        try:
            session.conf.set(name, value)
        except AnalysisException as problem:
            _log.warning("%s stays as it is where Spark already runs: %s", name, problem.getCondition())
    return session


def _there(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # of the package that it would be in
        return False


def _end_jvm() -> None:
    """End the JVM, which would outlive its session: the next one may want other options, and the scratch files go."""
    gateway = SparkContext._gateway
    if gateway is None:
        return
    SparkContext._gateway = SparkContext._jvm = None
    gateway.shutdown()
    gateway.proc.stdin.close()  # what it watches
    try:
        gateway.proc.wait(END_WITHIN_S)
    except TimeoutExpired:
        gateway.proc.kill()
        gateway.proc.wait()


@contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
