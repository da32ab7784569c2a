"""Settings of Spark for tests, which run many short queries over few rows."""

from __future__ import annotations

from hopline.demo.few_rows import QUICK_COMPILER
from hopline.pipeline.few_rows import QUICK_PLANS

QUICK_START = f"{QUICK_COMPILER} -XX:+UseSerialGC"
FEW_ROWS = QUICK_PLANS | {
    "spark.driver.extraJavaOptions": QUICK_START,
    "spark.sql.shuffle.partitions": "2",
    # Each stage would be planned anew, as a job of its own. The tests that start processes of their own leave it on.
    "spark.sql.adaptive.enabled": "false",
}
