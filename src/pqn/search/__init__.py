"""Searches for good options with Optuna: what may vary (`space`), the record of all workers (`study`), and training
several trials as one program (`together`, `worker`)."""
