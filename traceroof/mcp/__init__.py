"""traceroof for coding agents: six tools of the Model Context Protocol, over stdin and stdout.

``tools`` answers a call; ``work`` does so in a process of its own, which ``workers`` starts, ends with a
cancelled call and hears progress from; ``server`` speaks the protocol.
"""
