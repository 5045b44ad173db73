"""Runs Python that nobody has read: `run` is the safe side, `child` and the rest the other one."""
