"""What a node recorded of its traffic: records in Parquet segments, and how they come to be."""
