"""Environments that live on the CPU outside of JAX, feeding the same learner; docs/host.md tells how."""
