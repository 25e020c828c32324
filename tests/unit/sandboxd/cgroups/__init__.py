"""Control groups on fake trees of version 1 and version 2; ``tests/probe`` uses real ones."""
