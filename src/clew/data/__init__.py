"""Datasets on disk, endless streams of fresh mazes, and batches."""
