"""Pictures, plots and tables."""
