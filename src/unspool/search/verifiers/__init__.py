"""What judges an answer: `base` has the protocol, `registry` finds verifiers by name, each has a file."""
