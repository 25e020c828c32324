"""One sandbox, with a real process as its supervisor."""
