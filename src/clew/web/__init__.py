"""`clew serve`: a local page to draw mazes and watch models solve them."""
