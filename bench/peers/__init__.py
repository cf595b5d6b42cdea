"""Our baselines beside public implementations of the same algorithms: same task, budget, hyperparameters and score."""
