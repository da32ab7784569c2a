"""What is derived from the layout tables: the compiled codecs and the documentation page."""
