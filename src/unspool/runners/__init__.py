"""How to compute a graph: `base` (the seam), `native` (C++), `reference` (NumPy oracle), `toy`."""
