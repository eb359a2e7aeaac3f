"""Presets: one for each run of the paper, and our own."""
