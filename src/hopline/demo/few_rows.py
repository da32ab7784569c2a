"""Settings of Spark for few rows, where most of the time is that of planning queries and compiling code."""

from __future__ import annotations

from pathlib import Path

# The JIT compiler that starts soonest. Its cache has the size that the other one has by default, because all code that
# Spark generates must fit.
QUICK_COMPILER = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m"

QUICK_PLANS = {
    # Interpreting takes less time than compiling.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # Filters that are inferred pay for many rows only.
    "spark.sql.constraintPropagation.enabled": "false",
    # Every column would ask the JVM for the line of Python that made it.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
}


def write_spark_defaults(directory: Path) -> None:
    """Write a ``spark-defaults.conf`` for the sessions that commands open; they keep their own settings beside it.

    Args:
        directory: What ``SPARK_CONF_DIR`` of the commands names.
    """
    # The garbage collector is left to the session: Java refuses to start with two.
    settings = QUICK_PLANS | {"spark.driver.defaultJavaOptions": QUICK_COMPILER}
    directory.mkdir(parents=True, exist_ok=True)
    text = "".join(f"{name} {value}\n" for name, value in settings.items())
    (directory / "spark-defaults.conf").write_text(text)
