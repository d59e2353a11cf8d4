"""One paper, one file, in the paper's order."""
