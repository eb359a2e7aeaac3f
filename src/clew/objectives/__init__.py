"""What is hidden and what is to be predicted."""
