"""The number that a GGUF file stores for each tensor type, and what we read of them.

The numbers are part of the GGUF format (ggml-org/ggml, docs/gguf.md, "ggml_type"). Gaps are types that
were withdrawn or only ever existed in memory; they are named so that a refusal can say what was met.
"""

from __future__ import annotations

from unspool.models.weights.base import Encoding

ENCODING_OF_TYPE: dict[int, Encoding] = {
    0: Encoding.F32,
    1: Encoding.F16,
    2: Encoding.Q4_0,
    3: Encoding.Q4_1,
    6: Encoding.Q5_0,
    7: Encoding.Q5_1,
    8: Encoding.Q8_0,
    10: Encoding.Q2_K,
    11: Encoding.Q3_K,
    12: Encoding.Q4_K,
    13: Encoding.Q5_K,
    14: Encoding.Q6_K,
    20: Encoding.IQ4_NL,
    23: Encoding.IQ4_XS,
    30: Encoding.BF16,
}

REFUSED_TYPES: dict[int, str] = {
    4: "Q4_2",
    5: "Q4_3",
    9: "Q8_1",
    15: "Q8_K",
    16: "IQ2_XXS",
    17: "IQ2_XS",
    18: "IQ3_XXS",
    19: "IQ1_S",
    21: "IQ3_S",
    22: "IQ2_S",
    24: "I8",
    25: "I16",
    26: "I32",
    27: "I64",
    28: "F64",
    29: "IQ1_M",
    31: "Q4_0_4_4",
    32: "Q4_0_4_8",
    33: "Q4_0_8_8",
    34: "TQ1_0",
    35: "TQ2_0",
    36: "IQ4_NL_4_4",
    37: "IQ4_NL_4_8",
    38: "IQ4_NL_8_8",
    39: "MXFP4",
    40: "NVFP4",
    41: "Q1_0",
}
