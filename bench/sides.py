"""Run one side's job in a fresh process of its own environment.

A job is a dictionary with a "kind"; a side is a script beside this one that does it and prints one line
of JSON. Fresh processes keep one measurement's caches, threads and peak memory out of the next.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent


class Side:
    """A program that is measured: which Python runs which script, and on which weights."""

    def __init__(self, name: str, python: str, script: str, in_bfloat16: bool = False) -> None:
        """`in_bfloat16`: a script that reads the model of a job is given the job's float_model."""
        self.name = name
        self.python = python
        self.script = HERE / script
        self.in_bfloat16 = in_bfloat16

    def run(self, job: dict[str, Any]) -> dict[str, Any]:
        """The job's answer; ends the program when the side fails, with what it said."""
        if self.in_bfloat16 and "float_model" in job:
            job = {**job, "model": job["float_model"]}
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "job.json"
            path.write_text(json.dumps(job))
            done = subprocess.run(
                [self.python, str(self.script), str(path)], stdout=subprocess.PIPE, text=True, check=False
            )
        if done.returncode != 0:
            sys.exit(f"error: {self.name} failed at its '{job['kind']}' job (exit {done.returncode})")
        answer: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
        return answer


def ours(script: str = "unspool_side.py", in_bfloat16: bool = False) -> Side:
    return Side("unspool", sys.executable, script, in_bfloat16)


def llama_cpp(python: str, script: str = "llama_cpp_side.py") -> Side:
    """llama.cpp in the environment of `python`."""
    _check(python, "llama_cpp", "make bench-peers")
    return Side("llama.cpp", python, script)


def vllm(python: str) -> Side:
    """vLLM's CPU build in the environment of `python`."""
    _check(python, "vllm", "make bench-peers")
    return Side("vLLM", python, "vllm_side.py")


def transformers(python: str, script: str = "transformers_side.py") -> Side:
    """transformers and torch in the environment of `python`."""
    _check(python, "transformers", "make test-oracle")
    return Side("transformers", python, script)


def float_model(python: str, path: str) -> str:
    """The folder of a GGUF file's weights in bfloat16, written on first use by transformers in `python`."""
    folder = HERE / "results" / "bf16" / Path(path).name
    if not (folder / "config.json").exists():
        command = [python, str(HERE / "float_model.py"), str(Path(path).resolve()), str(folder)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return str(folder)


def _check(python: str, module: str, maker: str) -> None:
    probe = subprocess.run([python, "-c", f"import {module}"], capture_output=True, check=False)
    if probe.returncode != 0:
        sys.exit(f"error: '{python}' has no {module}; {maker} builds an environment that does")
