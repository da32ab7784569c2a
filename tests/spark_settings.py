"""Settings of Spark for tests, which run many short queries over few rows."""

from __future__ import annotations

# The JIT compiler that starts soonest. Its cache has the size that the other one has by default, because all code that
# Spark generates must fit.
QUICK_COMPILER = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m"
QUICK_START = f"{QUICK_COMPILER} -XX:+UseSerialGC"

# Over a few rows, most of the time is that of planning a query.
QUICK_PLANS = {
    # Interpreting takes less time than compiling.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # Filters that are inferred pay for many rows only.
    "spark.sql.constraintPropagation.enabled": "false",
    # Every column would ask the JVM for the line of Python that made it.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
}
FEW_ROWS = QUICK_PLANS | {
    "spark.driver.extraJavaOptions": QUICK_START,
    "spark.sql.shuffle.partitions": "2",
    # Each stage would be planned anew, as a job of its own. The tests that start processes of their own leave it on.
    "spark.sql.adaptive.enabled": "false",
}


def spark_defaults() -> str:
    """Return a ``spark-defaults.conf`` for the sessions that tested commands open, which keep their own settings."""
    # The garbage collector is left to the session: Java refuses to start with two.
    settings = QUICK_PLANS | {"spark.driver.defaultJavaOptions": QUICK_COMPILER}
    return "".join(f"{name} {value}\n" for name, value in settings.items())
