"""The studies, a file for each, and for those that belong together one file."""
