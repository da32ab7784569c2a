"""From captured frames to answers, on Spark: functions that take and return DataFrames, and a job that writes them."""
