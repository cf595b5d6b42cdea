"""The command line: one file a command. Nothing here imports jax before a command needs it.

A file of this folder is the command NAME if its docstring begins with "`pqn NAME …`: what it does"; `main` finds it,
shows it in `pqn --help`, and calls its `run(argv) -> exit status`.
"""
