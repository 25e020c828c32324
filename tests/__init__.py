"""Unit, library, conformance, functional and probe tests; ``support`` is what they share."""
