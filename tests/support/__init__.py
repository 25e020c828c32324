"""What the folders of tests share: a cluster of their own."""
