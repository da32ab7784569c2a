"""Where Spark looks for the data source ``hopline``, by the name of this package."""
