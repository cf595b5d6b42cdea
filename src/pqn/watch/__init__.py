"""Watching: pictures of environments, films of trained agents, and a run that is under way."""

MOST_CELLS = 100  # episodes side by side in a film
