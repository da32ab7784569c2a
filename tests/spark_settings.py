"""Settings of Spark for tests, which run many short queries over few rows."""

from __future__ import annotations

# The JIT compiler that starts soonest. Its cache has the size that the other one has by default, because all code that
# Spark generates must fit.
QUICK_COMPILER = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m"
QUICK_START = f"{QUICK_COMPILER} -XX:+UseSerialGC"

# Interpreting a query over a few rows takes less time than compiling it.
NO_CODE_GENERATION = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
FEW_ROWS = NO_CODE_GENERATION | {
    "spark.driver.extraJavaOptions": QUICK_START,
    "spark.sql.shuffle.partitions": "2",
}


def spark_defaults() -> str:
    """Return a ``spark-defaults.conf`` for the sessions that tested commands open, which keep their own settings."""
    # The garbage collector is left to the session: Java refuses to start with two.
    settings = NO_CODE_GENERATION | {"spark.driver.defaultJavaOptions": QUICK_COMPILER}
    return "".join(f"{name} {value}\n" for name, value in settings.items())
