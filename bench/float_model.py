"""Write a GGUF file's weights as a bfloat16 safetensors folder, for programs that do not read the file.

usage: python bench/float_model.py MODEL.gguf FOLDER

Runs in an environment with torch and transformers. The values are the file's, rounded to bfloat16: a
program that runs on the folder computes the same model and reads three to four times the bytes.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer


def write(source: Path, folder: Path) -> None:
    """Decode `source`, a GGUF file, and save model and tokenizer in `folder`."""
    decoded = AutoModelForCausalLM.from_pretrained(source.parent, gguf_file=source.name, dtype=torch.bfloat16)
    config = decoded.config
    if hasattr(config, "quantization_config"):
        del config.quantization_config  # the loader has decoded everything; with it, saving is refused
    plain = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    plain.load_state_dict(decoded.state_dict())
    plain.save_pretrained(folder)
    AutoTokenizer.from_pretrained(source.parent, gguf_file=source.name).save_pretrained(folder)


def main() -> None:
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    write(Path(sys.argv[1]), Path(sys.argv[2]))


if __name__ == "__main__":
    main()
