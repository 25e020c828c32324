"""The prose linter: plain technical English in documents, docstrings, comments, texts of the
product and names of tests.

Run as ``python3 -m tests.prose``; ``make check`` does.

``__main__``   the command line
``passages``   reads files and yields their prose, passage by passage
``layout``     splits reStructuredText into passages; leaves code and markup out
``words``      the tables: banned constructions, discouraged words and what to write instead
``check``      compares passages with the tables and with the limits of length
"""
