"""How nodes find each other: the network's own messages, and the state machines that speak them."""
