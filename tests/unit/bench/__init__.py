"""The benchmark's own parts: what it measures is for ``make bench``."""
