"""What a matcher of stops finds in a text that comes in pieces."""

from __future__ import annotations


def feed(follower, *pieces):
    """The first match; None where the text holds none."""
    for piece in pieces:
        match = follower.accept(piece)
        if match is not None:
            return match
    return None
