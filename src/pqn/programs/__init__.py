"""What is compiled: an environment and an algorithm become `init`, `chunk` and `evaluate`, for all seeds at once."""
