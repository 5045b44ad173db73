"""Keep the generated parts of the docs in step with the code.

usage: python tools/generate_docs.py [--check | --write]

A generated part stands between `<!-- generated: NAME -->` and `<!-- end -->` in README.md or docs/*.md.
--check (the default) fails and names every part that differs from what the code says; --write renews
them.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import decoding_tables
from decoding_tables import table

ROOT = Path(__file__).resolve().parent.parent
PART = re.compile(r"(<!-- generated: (?P<name>[a-z-]+) -->\n)(?P<body>.*?)(<!-- end -->)", re.DOTALL)


def first_line(doc: str | None) -> str:
    return (doc or "").strip().partition("\n")[0]


def error_codes() -> str:
    """Every error class, from the root down, with its code and exit code."""
    from unspool.errors import UnspoolError

    def walk(kind: type[UnspoolError]) -> Iterator[type[UnspoolError]]:
        yield kind
        for child in kind.__subclasses__():
            yield from walk(child)

    rows = [
        (f"`{kind.code}`", f"`{kind.__name__}`", str(kind.exit_code), first_line(kind.__doc__))
        for kind in walk(UnspoolError)
    ]
    return table(("code", "class", "exit", "meaning"), rows)


def exact_codes() -> str:
    """Codes that an error gets where it is raised, from the calls that name one."""
    from unspool import errors

    exits: dict[tuple[str, str], int] = {}
    for path in sorted((ROOT / "src").rglob("*.py")):
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
                continue
            kind = getattr(errors, call.func.id, None)
            codes = [keyword.value for keyword in call.keywords if keyword.arg == "code"]
            if kind is not None and codes and isinstance(codes[0], ast.Constant):
                exits[str(codes[0].value), call.func.id] = kind.exit_code
    rows = [(f"`{code}`", f"`{kind}`", str(exit_code)) for (code, kind), exit_code in sorted(exits.items())]
    return table(("code", "class", "exit"), rows)


def encodings() -> str:
    """Tensor encodings that a weights file may use."""
    from unspool.models.weights.base import Encoding
    from unspool.models.weights.quantize import RELATIVE_ERROR
    from unspool.runners.packed_size import packed_bytes

    n_values = 16 * 8192  # of a whole tile
    rows = [
        (
            f"`{kind.label}`",
            str(kind.block_values),
            f"{8 * kind.block_bytes / kind.block_values:g}",
            f"{8 * packed_bytes(kind, 16, 8192) / n_values:g}",
            f"{RELATIVE_ERROR[kind]:.2%}" if kind in RELATIVE_ERROR else "",
        )
        for kind in Encoding
    ]
    return table(("encoding", "values a block", "bits a value", "in memory", "error when made here"), rows)


def models() -> str:
    """The catalogue."""
    from unspool.models.catalogue import CATALOGUE, DEFAULT_MODEL

    rows = [
        (
            f"`{model.name}`" + (" (default)" if model.name == DEFAULT_MODEL else ""),
            model.description,
            model.architecture,
            f"{model.n_bytes / 1e6:,.0f} MB",
            model.licence,
        )
        for model in CATALOGUE.values()
    ]
    return table(("name", "what", "architecture", "file", "licence"), rows)


def architectures() -> str:
    """The families of networks and in what they differ."""
    from unspool.models.families import FAMILIES

    def traits(family: Any) -> Iterator[str]:
        yield {"silu": "SiLU", "gelu_tanh": "GELU (tanh)"}[family.activation]
        words = {
            "qkv_bias": "bias on q, k, v",
            "qk_norm": "norms on q and k",
            "post_norms": "norms after attention and feed-forward",
            "scaled_embedding": "scaled embedding",
            "fused": "fused projections",
        }
        yield from (text for name, text in words.items() if getattr(family, name))
        if family.window_period:
            yield f"sliding window on all layers but one in {family.window_period}"
        if family.local_rope_base:
            yield "a rope base of its own under the window"
        if family.attention_softcap or family.logit_softcap:
            yield "soft caps"

    rows = [(f"`{family.name}`", ", ".join(traits(family))) for family in FAMILIES.values()]
    return table(("architecture", "what is particular"), rows)


def verifiers() -> str:
    """What judges an answer, by name."""
    from unspool.search.verifiers.registry import BUILT_IN, find

    def what(maker: Any) -> str:
        return " ".join((maker.__doc__ or "").split("\n\n")[0].split()).partition(". ")[0].rstrip(".")

    rows = [
        (f"`{name}`", what(find(name)), f"`search/verifiers/{home.partition(':')[0]}.py`")
        for name, home in BUILT_IN.items()
    ]
    return table(("verifier", "what", "file"), rows)


def command_line() -> str:
    """Every command with its arguments and options, from the program itself."""
    import typer

    from unspool.cli.app import app
    from unspool.cli.param_words import DEFAULTS

    told: dict[str, str] = {}  # the decoding options of `run`, with their help

    def describe(command: Any, path: str) -> Iterator[str]:
        if hasattr(command, "commands"):
            for name, child in command.commands.items():
                yield from describe(child, f"{path} {name}")
            return
        rows = []
        words = [path]
        # Those of `run` stand for those of every command; the rarer ones are in decoding.md.
        decoding = [o for o in command.params if o.name in (*DEFAULTS, "profile", "assignments")]
        is_first = path == "unspool run"
        for option in command.params:
            if option in decoding and (option.hidden or option.help == told.get(option.name)):
                continue
            if is_first:
                told[option.name] = option.help
            metavar = option.metavar or ""
            if option.param_type_name == "argument":
                names = f"{metavar or option.name.upper()}{'...' if option.nargs == -1 else ''}"
                words.append(names)
                names = f"`{names}`"
            else:
                flag = ", ".join(f"`{name}`" for name in [*option.opts, *option.secondary_opts])
                names = f"{flag} `{metavar}`" if metavar else flag
            # A default that the help text does not state itself.
            stated = "[default:" in (option.help or "")
            is_value = isinstance(option.default, (str, int, float)) and not isinstance(option.default, bool)
            shown = is_value and not stated
            rows.append((names, (option.help or "") + (f" [default: {option.default}]" if shown else "")))
        yield f"#### {' '.join(words)}\n\n{first_line(command.help)}\n\n"
        if decoding:
            rest = f"the other [decoding parameters](decoding.md#parameters), {len(DEFAULTS)} in all"
            rows.append(
                ("...", rest if is_first else "profile and decoding parameters as `unspool run` has them")
            )
        if rows:
            yield table(("", "meaning"), rows) + "\n"

    return "".join(describe(typer.main.get_command(app), "unspool"))


def chat_commands() -> str:
    """What may be typed in a chat beside messages."""
    from unspool.cli.chat_commands import COMMANDS

    rows = [(f"`/{name} {c.takes}`".replace(" `", "`"), c.help) for name, c in COMMANDS.items() if c.help]
    return table(("command", "meaning"), rows)


PARTS: dict[str, Callable[[], str]] = {
    "error-codes": error_codes,
    "exact-codes": exact_codes,
    "encodings": encodings,
    "models": models,
    "architectures": architectures,
    "parameters": decoding_tables.parameters,
    "stages": decoding_tables.stages,
    "methods": decoding_tables.methods,
    "searches": decoding_tables.searches,
    "orders": decoding_tables.orders,
    "conventions": decoding_tables.conventions,
    "profiles": decoding_tables.profiles,
    "dialects": decoding_tables.dialects,
    "verifiers": verifiers,
    "command-line": command_line,
    "chat-commands": chat_commands,
}


def renew(text: str) -> tuple[str, list[str]]:
    """The text with every generated part made anew, and the names of those that differed."""
    stale: list[str] = []

    def replace(match: re.Match[str]) -> str:
        name = match["name"]
        if name not in PARTS:
            raise SystemExit(f"error: no generated part is called '{name}'; there are: {', '.join(PARTS)}")
        body = PARTS[name]()
        if body != match["body"]:
            stale.append(name)
        return f"{match[1]}{body}{match[4]}"

    return PART.sub(replace, text), stale


def main() -> None:
    parser = argparse.ArgumentParser(description=first_line(__doc__))
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--check", action="store_true", help="fail when a part differs from the code (default)")
    mode.add_argument("--write", action="store_true", help="renew every part")
    arguments = parser.parse_args()
    failed = False
    n_parts = 0
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        old = path.read_text(encoding="utf-8")
        n_parts += len(PART.findall(old))
        new, stale = renew(old)
        if stale and arguments.write:
            path.write_text(new, encoding="utf-8")
        for name in stale:
            word = "renewed" if arguments.write else "differs from the code (make docs ARGS=--write)"
            print(f"docs: {path.relative_to(ROOT)}: {name} {word}")
            failed |= not arguments.write
    if failed:
        sys.exit(1)
    print(f"docs: {n_parts} generated parts agree with the code")


if __name__ == "__main__":
    main()
