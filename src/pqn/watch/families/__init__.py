"""One file for each family of environments: from a state to a picture."""
