"""Networks described as lists of ops. Start with decoder.py, which describes every family there is."""

from unspool.models.architectures.decoder import build_graph

__all__ = ["build_graph"]
