"""The command line: one file a command. Nothing here imports jax before a command needs it."""
