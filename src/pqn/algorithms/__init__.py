"""Learning algorithms. Each is one file behind the protocol of `base`."""
