"""From a trained model to a path: left to right, by certainty, in parallel, with repair."""
