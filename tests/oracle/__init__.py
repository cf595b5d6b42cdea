"""A second, plain PQN in numpy that every run of `src/pqn` must agree with. See `pqn.py`."""
