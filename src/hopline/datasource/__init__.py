"""Captures as a data source of Spark, ``spark.read.format("hopline")``: see `hopline.datasource.source`."""
