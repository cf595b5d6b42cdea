"""A run on disk: its directory, its checkpoints, its metrics, and what is known about how it was made."""
