"""How branches grow: `base` is the protocol, `sample` the search with one branch."""
