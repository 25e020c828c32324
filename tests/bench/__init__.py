"""What a storlet costs, as ratios to plain Swift measured side by side in one run."""
