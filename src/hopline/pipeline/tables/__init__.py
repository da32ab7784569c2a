"""One file for each table, or for what is computed together: functions from DataFrames to DataFrames."""
