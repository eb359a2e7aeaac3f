"""`make demo`, or `clew demo`: mazes made and solved, a model trained from nothing, and mazes of growing size."""
