"""The benchmark: the overhead of storlets as ratios to plain Swift, measured in the same run."""
