"""The way of each flow: what came of what, and where its time went. Numpy over Arrow batches of whole flows."""
