from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from hopline.message import ArgumentError
from hopline.pipeline.failures import RequirementError
from hopline.pipeline.session import QUERY_SETTINGS, spark_session
from tests.spark_settings import FEW_ROWS


def test_a_session_is_quiet_bound_to_loopback_and_in_utc(spark: SparkSession) -> None:
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.conf.get("spark.driver.bindAddress") == "127.0.0.1"
    assert spark.sparkContext.uiWebUrl is None
    assert spark.sql("select timestamp '2026-01-02 03:04:05' = timestamp_seconds(1767323045) as same").first() == (
        True,
    )


def test_where_spark_already_runs_it_is_used_and_left_running(spark: SparkSession) -> None:
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    try:
        with spark_session("local[7]", memory="9g", config={"spark.sql.shuffle.partitions": "3"}) as session:
            assert session.sparkContext is spark.sparkContext
            assert {name: session.conf.get(name) for name in QUERY_SETTINGS} == QUERY_SETTINGS
            assert session.conf.get("spark.sql.shuffle.partitions") == "3"
        assert spark.conf.get("spark.sql.session.timeZone") == "Asia/Tokyo"
        assert spark.conf.get("spark.sql.shuffle.partitions") == FEW_ROWS["spark.sql.shuffle.partitions"]
        assert spark.range(3).count() == 3
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


def test_what_cannot_be_set_any_more_is_told_and_left(spark: SparkSession, caplog: pytest.LogCaptureFixture) -> None:
    with spark_session(config={"spark.executor.memory": "9g"}) as session:
        assert session.conf.get("spark.executor.memory", "as it was") == "as it was"
    assert "spark.executor.memory stays as it is" in caplog.text


def test_what_fails_in_a_task_is_told_by_the_exception_and_not_by_the_log(
    spark: SparkSession, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(Exception, match="what went wrong"):
        spark.sql("select raise_error('what went wrong') from range(2)").collect()
    assert capfd.readouterr().err == ""


def test_a_master_and_a_server_exclude_each_other() -> None:
    with pytest.raises(ArgumentError, match="none beside remote"), spark_session("local[1]", remote="sc://127.0.0.1"):
        pass


def test_a_server_is_named_by_its_address() -> None:
    with pytest.raises(ArgumentError, match="sc://host:port"), spark_session(remote="local[1]"):
        pass


def test_what_spark_connect_lacks_is_named_with_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hopline.pipeline.session.find_spec", lambda name: None if name == "zstandard" else object())
    with pytest.raises(RequirementError) as error, spark_session(remote="sc://127.0.0.1:1"):
        pass
    assert "needs zstandard" in str(error.value)
    assert "pip install 'hopline[connect]'" in str(error.value)
