"""The tables that the pipeline wrote, read with DuckDB and without a session of Spark.

`tables` answers questions in SQL, of files that `files` finds in any storage; `catalogue` lists what there is,
`summary` what is worth knowing first, and `short_ids` cuts ids to what fits a screen. `errors` says in plain words what
is wrong with a question.
"""
