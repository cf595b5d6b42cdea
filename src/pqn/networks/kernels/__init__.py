"""Kernels written by hand for accelerators."""
