"""Q-networks: norms, torsos and heads, put together in `qnetwork`."""

from pqn.networks.qnetwork import QNetwork as QNetwork
