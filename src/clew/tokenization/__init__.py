"""How a maze and its path are written as tokens, and read back."""
