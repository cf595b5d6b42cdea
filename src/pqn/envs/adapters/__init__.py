"""Environments of other packages under our contract, one file for each package or family."""
