"""Starts Python workers: see ``runtime``."""
