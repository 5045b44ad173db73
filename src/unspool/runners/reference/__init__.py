"""The oracle: every op of a graph in plain NumPy, over paged keys and values. Obvious first, fast never."""

from unspool.runners.reference.runner import ReferenceRunner

__all__ = ["ReferenceRunner"]
