"""`import unspool` costs next to nothing: which modules it brings, not how long it takes.

Time is shown by `make bench`, where nothing else runs.
"""

from __future__ import annotations

import subprocess
import sys

HEAVY = ("torch", "transformers", "tokenizers", "jinja2", "typer", "rich", "huggingface_hub", "pip", "numpy")


def modules_after(statement: str) -> set[str]:
    """Top-level modules of a fresh interpreter after one statement."""
    program = f"{statement}\nimport sys\nprint(*{{name.partition('.')[0] for name in sys.modules}})"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(result.stdout.split())


def test_import_unspool_brings_no_dependency() -> None:
    modules = modules_after("import unspool")
    assert "unspool" in modules
    assert modules.isdisjoint(HEAVY), sorted(modules & set(HEAVY))


def test_the_front_door_brings_neither_torch_nor_the_command_line() -> None:
    modules = modules_after("from unspool import LLM, DecodingParams")
    assert modules.isdisjoint({"torch", "transformers", "typer", "huggingface_hub", "pip"})


def test_an_unknown_public_name_is_an_attribute_error() -> None:
    program = "import unspool\ntry:\n    unspool.nonesuch\nexcept AttributeError as error:\n    print(error)"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "module 'unspool' has no attribute 'nonesuch'"
