"""Whose pages are whose: `layout` (how large), `pool` (which are free), `table` (which a branch holds).

The engine's side of the cache is page numbers only; keys and values themselves belong to the runner.
"""
