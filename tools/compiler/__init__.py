"""Compile the layout tables into straight-line codecs: ``python -m tools.compiler``, or ``make generate``.

The compiled functions are fast paths. They read and write the usual message and raise on anything odd (`FastPathMiss`,
or whatever Python raises on the way); the careful reader and writer then have the word. What a fast path accepts, the
careful path must accept with the same result: tests hold them against each other.
"""
