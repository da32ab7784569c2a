"""Settings of Spark for queries over few rows, where planning them and starting tasks takes most of the time."""

from __future__ import annotations

from collections.abc import Container

QUICK_PLANS = {
    # Interpreting takes less time than compiling.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # Filters that are inferred pay for many rows only.
    "spark.sql.constraintPropagation.enabled": "false",
}

FEW_ROWS = 100_000
_ROWS_IN_PARTITION = 25_000


def settings_for(rows: int, chosen: Container[str]) -> dict[str, str]:
    """Return the settings for queries over so many rows of messages: none where the usual ones are better.

    Args:
        rows: The number of rows.
        chosen: The names of settings that the user has chosen, which stay as they are.
    """
    if rows > FEW_ROWS:
        return {}
    settings = QUICK_PLANS | {
        # Each stage would be planned anew, as a job of its own, to put small partitions together: there are none.
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.shuffle.partitions": str(max(1, -(-rows // _ROWS_IN_PARTITION))),
    }
    return {name: value for name, value in settings.items() if name not in chosen}
