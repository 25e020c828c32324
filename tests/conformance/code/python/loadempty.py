"""Has no class of the expected name."""
