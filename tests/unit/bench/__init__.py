"""Unit tests of the benchmark's parts; ``make bench`` runs the measurements."""
