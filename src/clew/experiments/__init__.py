"""Presets of our own, and the paper's by name; its tables and figures as studies."""
