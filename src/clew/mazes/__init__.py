"""What a maze is, where mazes come from, and what solves them exactly."""
