"""The options of ``storlet.conf``."""
