"""Watching: pictures of environments, films of trained agents, and a run that is under way."""
