"""The pipeline through Spark Connect: a real server whose Python has no Hopline."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from socket import create_connection

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
from tests.pipeline.webhdfs import webhdfs
from tests.spark_settings import FEW_ROWS, QUICK_START

SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"
STARTED_WITHIN_S = 200

pytestmark = [pytest.mark.timeout(1500), pytest.mark.jvm]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    directory = tmp_path_factory.mktemp("server")
    port = free_port()
    settings = FEW_ROWS | {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.extraJavaOptions": f"{QUICK_START} -Djava.io.tmpdir={directory}",
        "spark.ui.enabled": "false",
    }
    command = [
        str(SPARK / "bin" / "spark-submit"),
        "--class",
        SERVER,
        "--master",
        "local[2]",
        "--driver-memory",
        "768m",
    ]
    for name, value in settings.items():
        command += ["--conf", f"{name}={value}"]
    environment = os.environ | find_java().environment()
    environment |= {"PYSPARK_PYTHON": str(bare_python(directory)), "SPARK_LOCAL_IP": "127.0.0.1"}
    log = directory / "log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [*command, "spark-internal"], env=environment, cwd=directory, stdout=out, stderr=subprocess.STDOUT
        )
    try:
        deadline = time.monotonic() + STARTED_WITHIN_S
        while not answers(port):
            assert process.poll() is None, log.read_text()[-4000:]
            assert time.monotonic() < deadline, log.read_text()[-4000:]
            time.sleep(0.1)
        yield f"sc://127.0.0.1:{port}"
    finally:
        process.terminate()
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def answers(port: int) -> bool:
    try:
        with create_connection(("127.0.0.1", port), timeout=1):
            return True
    except OSError:
        return False


@pytest.mark.parametrize("tables", ["flow_tables", pytest.param("all_tables_and_traces", marks=pytest.mark.slow)])
def test_jobs_give_the_same_through_a_server_that_has_no_hopline(
    server: str, spark: SparkSession, tmp_path: Path, tables: str
) -> None:
    folder = generated_lake(tmp_path / "generated")
    jobs = ["decoded", "through_the_source", tables]
    with webhdfs(folder) as uri:
        there = run_elsewhere(jobs, Lake(folder, uri), tmp_path, {}, remote=server)
    assert there == run_here(spark, jobs, folder)
