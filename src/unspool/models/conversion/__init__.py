"""A Hugging Face folder as the GGUF file it would be. Start with folder.py."""

from unspool.models.conversion.folder import ConvertedFolder

__all__ = ["ConvertedFolder"]
