"""What follows a branch's text, token by token, so that no step looks at the whole text again.

`history.History` is the whole; one file for each thing that is kept.
"""

from unspool.history.history import History

__all__ = ["History"]
