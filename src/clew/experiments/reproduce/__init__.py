"""Every table and figure of the paper as a study: what to train, what to score, what to draw, and what follows."""
