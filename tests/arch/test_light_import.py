"""`import unspool` costs next to nothing: which modules it brings, not how long it takes.

Time is shown by `make bench`, where nothing else runs.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import unspool

# What some requests, formats and failures need, and an answer to a question does not.
UNUSED = (
    "unspool.best",
    "unspool.engine.sessions",
    "unspool.logits.tracing",
    "unspool.models.config_hf",
    "unspool.models.identity",
    "unspool.models.tokenizer.tokenizer_json",
    "unspool.models.weights.quantize",
    "unspool.models.weights.safetensors_source",
    "unspool.saving",
    "unspool.scoring",
    "unspool.search.verifiers.base",
    "unspool.search_tree",
    "unspool.trace",
    "difflib",
    "secrets",
    "shutil",
    "tempfile",
    "tomllib",
)
HEAVY = ("torch", "transformers", "tokenizers", "jinja2", "typer", "rich", "huggingface_hub", "pip", "numpy")


def modules_after(statement: str) -> set[str]:
    """Modules of a fresh interpreter after one statement."""
    program = f"{statement}\nimport sys\nprint(*sys.modules)"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(result.stdout.split())


def test_import_unspool_brings_no_dependency() -> None:
    modules = modules_after("import unspool")
    assert "unspool" in modules
    assert modules.isdisjoint(HEAVY), sorted(modules & set(HEAVY))


def test_the_front_door_brings_neither_torch_nor_the_command_line() -> None:
    modules = modules_after("from unspool import LLM, DecodingParams")
    assert modules.isdisjoint({"torch", "transformers", "typer", "huggingface_hub", "pip"})


def test_an_answer_brings_only_what_answers_need() -> None:
    parts = "unspool.cli.plain, unspool.cli.answer, unspool.cli.load, unspool.cli.model_options"
    modules = modules_after(
        f"from unspool import LLM\nimport unspool.runners.native, unspool.models.config_gguf, {parts}"
    )
    assert "unspool.engine.worker" in modules
    assert modules.isdisjoint(UNUSED), sorted(modules & set(UNUSED))


def test_the_methods_of_dataclasses_are_not_made_where_they_are_declared() -> None:
    package = Path(unspool.__file__).parent
    apart = {package / "light_dataclass.py", package / "search/verifiers/sandbox/run.py"}  # runs on its own
    standard = re.compile(r"^\s*(from dataclasses import .*\bdataclass\b|@dataclasses\.)", re.MULTILINE)
    found = [path for path in package.rglob("*.py") if standard.search(path.read_text("utf-8"))]
    assert set(found) <= apart, f"take dataclass from unspool.light_dataclass: {set(found) - apart}"


def test_an_unknown_public_name_is_an_attribute_error() -> None:
    program = "import unspool\ntry:\n    unspool.nonesuch\nexcept AttributeError as error:\n    print(error)"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "module 'unspool' has no attribute 'nonesuch'"
