"""Formats: mazes and paths as tokens or drawings, and back."""
