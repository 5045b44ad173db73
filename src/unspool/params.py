"""DecodingParams."""
