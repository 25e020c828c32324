"""Hostile storlets against a real cluster: one ordered table, run by ``make attack`` and by
``tests/probe/test_attacks.py``."""
