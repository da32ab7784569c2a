"""Where Spark looks for the data source ``hopline``: in packages whose name begins with ``pyspark_``."""

from hopline.datasource.source import HoplineSource as DefaultSource

__all__ = ["DefaultSource"]
