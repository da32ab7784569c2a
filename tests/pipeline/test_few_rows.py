"""Batches over few rows set Spark up for them, and leave alone what the user has chosen."""

from __future__ import annotations

from hopline.pipeline.few_rows import FEW_ROWS, settings_for

PARTITIONS = "spark.sql.shuffle.partitions"
ADAPTIVE = "spark.sql.adaptive.enabled"


def test_few_rows_are_shuffled_into_few_partitions_that_no_stage_plans_anew() -> None:
    assert settings_for(0, ())[PARTITIONS] == "1"
    assert settings_for(25_001, ())[PARTITIONS] == "2"
    assert settings_for(FEW_ROWS, ())[ADAPTIVE] == "false"


def test_many_rows_have_the_usual_settings() -> None:
    assert settings_for(FEW_ROWS + 1, ()) == {}


def test_what_the_user_has_chosen_stays() -> None:
    settings = settings_for(1, {PARTITIONS: "7"})
    assert PARTITIONS not in settings
    assert ADAPTIVE in settings
