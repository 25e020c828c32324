"""Hostile storlets against a real cluster: one ordered table, run by ``make attack`` and, row by
row (``trial``), by ``tests/probe/test_attacks.py`` and ``test_exhaustion.py``."""
