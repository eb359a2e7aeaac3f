"""Objectives: the tokens that are hidden and predicted, and their loss."""
