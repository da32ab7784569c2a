"""Settings of Spark for the few rows of the demo, for the sessions that its commands open."""

from __future__ import annotations

from pathlib import Path

from hopline.pipeline.few_rows import QUICK_PLANS

# The JIT compiler that starts soonest. Its cache has the size that the other one has by default, because all code that
# Spark generates must fit.
QUICK_COMPILER = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m"


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
