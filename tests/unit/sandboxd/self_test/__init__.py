"""The gates of trust classes, and the sandboxes that are made for self-tests."""
