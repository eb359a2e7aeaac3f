"""Clew: transformers that find their way through mazes by predicting many steps at once."""

__version__ = "0.1.0"
