"""The pipeline on a real cluster: a master and two workers of Spark's own, whose Python has no Hopline.

Driver and workers have folders of their own. Captures and tables are on storage that all of them reach, and nowhere
else. Two workers of one machine go by two of its names: Spark tries a slow task a second time on another host only.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from threading import Condition
from typing import Any

import pytest
from pyspark.sql import SparkSession

from hopline.pipeline.java import find_java
from tests.pipeline.elsewhere import (
    SPARK,
    Lake,
    bare_python,
    free_port,
    generated_lake,
    run_elsewhere,
    run_here,
)
from tests.pipeline.webhdfs import Operation, webhdfs
from tests.spark_settings import FEW_ROWS, QUICK_START

STARTED_WITHIN_S = 200
TRIED_TWICE_WITHIN_S = 200
SETTINGS = FEW_ROWS | {
    "spark.executor.extraJavaOptions": QUICK_START,
    "spark.executor.memory": "512m",
}
OPTIONS: dict[str, Any] = {"memory": "512m", "config": SETTINGS}

pytestmark = [pytest.mark.timeout(1500), pytest.mark.jvm]


class Cluster:
    """A standalone cluster on loopback, each part in a process of its own."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.processes: list[subprocess.Popen[bytes]] = []
        self.environment = {"PYSPARK_PYTHON": str(bare_python(directory)), "SPARK_HOME": str(SPARK)}
        port, self.web_port = free_port(), free_port()
        self.master = f"spark://127.0.0.1:{port}"
        self._start("master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", str(self.web_port))
        for host in ("127.0.0.1", "localhost"):
            work = str(directory / host)
            self._start("worker.Worker", "--host", host, "-c", "1", "-m", "1g", "-d", work, self.master)

    def _start(self, part: str, *arguments: str) -> None:
        environment = {
            **os.environ,
            **find_java().environment(),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": QUICK_START,
            "SPARK_LOCAL_DIRS": str(self.directory / f"{part}-{len(self.processes)}"),
            "SPARK_WORKER_WEBUI_PORT": "0",
        }
        command = [str(SPARK / "bin" / "spark-class"), f"org.apache.spark.deploy.{part}", *arguments]
        with (self.directory / f"{len(self.processes)}.log").open("wb") as log:
            self.processes.append(
                subprocess.Popen(command, env=environment, cwd=self.directory, stdout=log, stderr=subprocess.STDOUT)
            )

    def wait(self) -> None:
        deadline = time.monotonic() + STARTED_WITHIN_S
        while self._workers() < 2:
            assert time.monotonic() < deadline, self.log()
            assert all(process.poll() is None for process in self.processes), self.log()
            time.sleep(0.1)

    def _workers(self) -> int:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.web_port}/json/", timeout=5) as answer:
                return int(json.load(answer)["aliveworkers"])
        except (OSError, ValueError):  # not listening yet, or not yet serving JSON at this address
            return 0

    def log(self) -> str:
        return "\n".join(path.read_text()[-2000:] for path in sorted(self.directory.glob("*.log")))

    def stop(self) -> None:
        for process in reversed(self.processes):
            process.terminate()
        for process in self.processes:
            try:
                process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path_factory.mktemp("cluster"))
    try:
        cluster.wait()
        yield cluster
    finally:
        cluster.stop()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return generated_lake(tmp_path_factory.mktemp("generated"))


@pytest.mark.parametrize("tables", ["flow_tables", pytest.param("all_tables_and_traces", marks=pytest.mark.slow)])
def test_jobs_give_the_same_on_a_cluster_that_has_no_hopline(
    cluster: Cluster, folder: Path, spark: SparkSession, tmp_path: Path, tables: str
) -> None:
    jobs = ["decoded", "through_the_source", tables]
    with webhdfs(folder) as uri:
        there = run_elsewhere(jobs, Lake(folder, uri), tmp_path, cluster.environment, master=cluster.master, **OPTIONS)
    assert there == run_here(spark, jobs, folder)


class Trouble:
    """Lets the first attempt to write a file of `rejects` fail, and holds one of `audit` until it is tried twice."""

    def __init__(self) -> None:
        self.refused: str | None = None
        self.attempts: set[str] = set()
        self._changed = Condition()

    def __call__(self, operation: Operation) -> None:
        attempt = re.search(r"/(rejects|audit)/.*/attempt_\d+_(\d+_m_\d+_\d+)/.*parquet$", f"/{operation.path}")
        if operation.name != "CREATE" or attempt is None:
            return
        with self._changed:
            if attempt[1] == "rejects":
                if self.refused is None:
                    self.refused = attempt[2]
                    raise OSError("the write fails midway")
                return
            self.attempts.add(attempt[2])
            self._changed.notify_all()
            self._changed.wait_for(lambda: len(self.attempts) > 1, timeout=TRIED_TWICE_WITHIN_S)


def test_tasks_that_are_tried_twice_or_at_the_same_time_leave_each_row_once(
    cluster: Cluster, folder: Path, spark: SparkSession, tmp_path: Path
) -> None:
    settings = SETTINGS | {
        "spark.speculation": "true",
        "spark.speculation.interval": "100ms",
        "spark.speculation.task.duration.threshold": "1s",  # the job's only task is slow, too
        "spark.hadoop.dfs.webhdfs.socket.read-timeout": f"{2 * TRIED_TWICE_WITHIN_S}s",
    }
    options: dict[str, Any] = OPTIONS | {"config": settings, "master": cluster.master}
    trouble = Trouble()
    with webhdfs(folder, trouble) as uri:
        job = "tables_of_a_decoder_that_fails_at_first"
        there = run_elsewhere([job], Lake(folder, uri), tmp_path, cluster.environment, **options)
    assert there[job] == run_here(spark, ["record_tables"], folder)["record_tables"]
    assert trouble.refused is not None
    assert len(trouble.attempts) > 1


def test_spark_submit_decides_where_a_job_runs(
    cluster: Cluster, folder: Path, spark: SparkSession, tmp_path: Path
) -> None:
    submit = [str(SPARK / "bin" / "spark-submit"), "--master", cluster.master, "--driver-memory", "512m"]
    for name, value in (SETTINGS | {"spark.driver.host": "127.0.0.1", "spark.ui.enabled": "false"}).items():
        submit += ["--conf", f"{name}={value}"]
    environment = cluster.environment | find_java().environment() | {"SPARK_LOCAL_IP": "127.0.0.1"}
    environment["PYSPARK_DRIVER_PYTHON"] = sys.executable
    there = run_elsewhere(["decoded"], Lake(folder, str(folder)), tmp_path, environment, command=submit)
    assert there == run_here(spark, ["decoded"], folder)
