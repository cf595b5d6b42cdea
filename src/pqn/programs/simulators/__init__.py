"""The program for environments outside of JAX, which run on the CPU; docs/simulators.md describes it."""
