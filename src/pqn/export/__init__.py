"""Trained agents for other programs: ONNX, StableHLO, safetensors, a model card, a repository of models."""
