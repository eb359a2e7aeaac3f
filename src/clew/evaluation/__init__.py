"""Scores of predicted paths, by length, with failure classes."""
