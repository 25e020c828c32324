"""Starts Java workers: see ``runtime``."""
