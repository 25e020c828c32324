"""Coverage of the unit tests, as a checker of ``make check``.

``__main__``   runs the unit tests under coverage, and compares the packages with their floors
``selection``  the unit tests that it runs
``floors``     the table of floors, and the comparison
"""
