"""How branches grow: `base` is the protocol, `sample` the search whose branches know nothing of each other,
`groups` the step that beams share, and `telling` what a step says of itself to who traces."""
