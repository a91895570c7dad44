"""Many runs of one program over time: when it got slower, by how much, and with which commit."""
