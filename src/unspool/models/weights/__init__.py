"""Weights as they are stored: GGUF files and Hugging Face safetensors folders.

`open_weights` gives a `WeightSource`; `dequantize` and `dequantize_rows` give float32 values of a tensor.
"""

from unspool.models.weights.base import Encoding, Tensor, WeightSource
from unspool.models.weights.dequantize import dequantize, dequantize_rows
from unspool.models.weights.open import open_weights

__all__ = ["Encoding", "Tensor", "WeightSource", "dequantize", "dequantize_rows", "open_weights"]
