"""The export that the tests of this folder share: it takes a while."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from tests.export.exported import Exported, make_exported


@pytest.fixture(scope="session")
def exported(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Exported:
    return make_exported(tmp_path_factory.mktemp("export"), spark)
