"""The tables as web pages: ``hopline explore TABLES``. Reads them with DuckDB; nothing is written anywhere."""
