"""Hostile storlets against a real cluster: one ordered table, run by ``make attack`` and, row by
row (``trial``), by ``tests/probe/test_attacks.py``, ``test_exhaustion.py`` and
``test_timed_attacks.py``."""
