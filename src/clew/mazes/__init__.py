"""Mazes, their generators and exact solvers."""
