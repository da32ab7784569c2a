"""Queries of the tables that the pipeline wrote, with DuckDB and without a Spark session.

`tables` runs SQL over the files that `files` finds in any storage. `catalogue` lists the tables and their columns,
`summary` the findings, and `short_ids` shortens ids for the screen. `errors` explains what is wrong with a query.
"""
