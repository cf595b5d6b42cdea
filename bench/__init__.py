"""Benchmarks: `python -m bench` runs the CPU ones; each module says what it measures and prints JSON."""
