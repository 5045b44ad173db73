"""What the library refuses, the command line refuses by the names of its own options."""

from __future__ import annotations

import ast
import inspect
import re
from dataclasses import fields
from pathlib import Path

import pytest
from tiny_llm import write_tiny_llm
from tiny_models import TinySpec, byte_tokenizer_metadata, tiny_source, write_gguf

import unspool as package
from unspool import LLM
from unspool.cli.names import OPTIONS, as_typed
from unspool.engine.limits import Limits
from unspool.errors import BadRequest, as_written, in_python, named
from unspool.search.named import SEARCHES

SOURCE = Path(package.__file__).parent
# Names that only a call has. One word of English among them cannot be told from prose, and is looked for in
# the refusals below.
CALLED = {
    name
    for name in (*inspect.signature(LLM.__init__).parameters, *(field.name for field in fields(Limits)))
    if "_" in name
}
CALLED |= {
    "n_sequences",
    "n_layers",
    "kv_format",
    "weight_bytes",
    "budget_tokens",
    "allow_weak",
    "score_field",
    "timeout_s",
}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return str(write_tiny_llm(tmp_path_factory.mktemp("model") / "tiny.gguf"))


@pytest.fixture(scope="module")
def quantized(tmp_path_factory, model):
    from unspool.models.quantize_file import quantize_file

    path = tmp_path_factory.mktemp("quantized") / "small.gguf"
    quantize_file(model, path, "q8_0")
    return str(path)


LONG = "x" * 300
ALL = ("run", "explain", "chat", "best", "eval")
COMMANDS = {
    "run": ("run", "Hi"),
    "explain": ("explain", "Hi"),
    "chat": ("chat",),
    "best": ("best", "Hi"),
    "eval": ("eval", "arithmetic"),
}


@pytest.mark.parametrize(
    ("commands", "options", "says"),
    [
        (ALL, ["--context", "999"], "--context must be in [1, 128], the model's own, got 999"),
        (ALL, ["--threads", "9999"], "--threads must be a whole number in [1, 256], got 9999; leave it out"),
        (ALL, ["--threads", "0"], "--threads must be a whole number in [1, 256], got 0; leave it out"),
        (ALL, ["--kv", "1KiB"], "--kv '1KiB' is 1 KiB, and one page of 32 tokens takes 8 KiB; give more\n"),
        (ALL, ["--kv", "99999999999"], "--kv must be at most 536870912 with pages of 32, got 99999999999"),
        (ALL, ["--runner", "other"], "--runner must be one of native, reference, got 'other'"),
        (ALL, ["--runner", "reference", "--threads", "1"], "runner has no threads; leave --threads out"),
        (ALL, ["--weights", "q5"], "--weights must be one of q8, q4, got 'q5'"),
        (ALL, ["--temperature", "nan"], "temperature must be a number in [0, 100], got nan"),
        (ALL, ["--amateur", "/nowhere"], "no such file or folder: '/nowhere'"),
        (("run", "explain"), ["--kv", "32", LONG], "give the KV cache more room (--kv), which is what"),
        (
            ("run", "explain"),
            ["--kv", "1"],
            "room (--kv), which is what keeps the context so short, and raise",
        ),
        (
            ("run",),
            ["--context", "128", "x" * 600],
            "shorten the prompt, which the model has no more room for",
        ),
        (("eval",), ["--concurrency", "1025"], "--concurrency must be a whole number in [1, 1024], got"),
        (
            ("run", "explain"),
            ["--context", "64", LONG],
            "shorten the prompt, or raise --context\n",
        ),
        (
            ("run", "best"),
            ["-n", "600"],
            "sample may have 600 branches at once, each needs a row of the step",
        ),
        (("run", "best"), ["-n", "600"], "a step has 512; give -n of at most 512\n"),
        (("run", "best"), ["-n", "300", "--guidance-scale", "2"], "; give -n of at most 256\n"),
        (("run", "best"), ["-n", "64", "--kv", "256"], "; lower max_tokens or -n, or give more --kv\n"),
        (
            ("run", "best"),
            ["-n", "9999999999"],
            "-n must be a whole number in [1, 2147483647], got 9999999999",
        ),
        (
            ("chat",),
            ["--search", "beam:width=200", "--guidance-scale", "2", "--amateur", "MODEL"],
            "beam may have 200 branches at once, each needs 3 rows, guided or contrasted as it is,",
        ),
        (("run", "best"), ["--search", "beam:width=2", "-n", "3"], "-n 3 is more answers than a search with"),
        (("best",), ["--search", "beam", "--budget", "9"], "--budget 9 has no meaning with beam, whose"),
        (("best",), ["--temperature", "0"], "makes 16 equal answers; raise temperature, or set -n 1\n"),
        (("run", "chat"), ["--must-contain", "a|"], "--must-contain takes a text, or texts with | between,"),
        (
            ("run", "best"),
            ["--must-contain", "\udcff"],
            "--must-contain is not valid UTF-8; convert it first",
        ),
        (ALL, ["--max-tokens", "0"], "or none, got 0; none writes to the end of the context\n"),
        (ALL, ["--kv", "101%"], "(50%, at most 100%), got '101%'"),
        (ALL, ["--amateur", "MODEL", "--contrast", ""], "--contrast takes alpha=X and beta=X, got ''"),
        (("best",), ["--verifier", "arithmetic", "--expect", "x"], "--expect must be one number, got 'x'"),
        (("best",), ["--verifier", "http-reward", "--url", "x"], "--url must be an http or https address"),
        (("best",), ["--verifier", "python-tests"], "--verifier python-tests needs --tests; `unspool best"),
        (
            ("chat",),
            ["--session", "/nowhere/a"],
            "--session /nowhere/a: there is no folder /nowhere; make it",
        ),
        (("eval",), ["--seed", "none"], "--seed none is a fresh one each time"),
        (
            ("eval",),
            ["-n", "99999999"],
            "-n must be a whole number in [0, 1000000], got 99999999; leave it out",
        ),
        (("eval",), ["--limit", "99999999"], "--problems must be a whole number in [1, 1000000], got"),
        (("eval",), ["--problem-seed", "9" * 20], "--problem-seed must be a whole number in [0, 18446744073"),
        (("eval",), ["--context", "2"], "is too short to score a text in; raise --context\n"),
    ],
)
def test_what_the_library_refuses_is_said_in_the_options_that_were_typed(
    unspool, model, commands, options, says
):
    for command in commands:
        words, given = list(COMMANDS[command]), list(options)
        if given[-1].startswith("xxx"):
            words[1] = given.pop()
        if command == "best" and "--verifier" not in given:
            given += ["--verifier", "sum-logprob"]
        given = [model if word == "MODEL" else word for word in given]
        ran = unspool(*words, "--model", model, *given, stdin=b"Hi\n")
        assert ran.exit_code in (1, 2), (command, ran)
        assert says in ran.err
        assert ran.err.splitlines()[-1].startswith("error: ")
        assert not [name for name in CALLED if re.search(rf"\b{name}\b", ran.err)]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (
            ["kv", "--batch", "9999999999999"],
            "--batch must be a whole number in [1, 2**40], got 9999999999999",
        ),
        (["kv", "--context", "9999999999999"], "--context must be a whole number in [1, 2**40]"),
        (["kv", "--page-size", "24"], "--page-size must be a power of two, got 24"),
        (
            ["kv", "--layers", "9999", "--kv-heads", "1", "--head-dim", "1"],
            "--layers must be a whole number in [1, 1024]",
        ),
        (
            ["kv", "--layers", "1", "--kv-heads", "9999999999", "--head-dim", "1"],
            "--kv-heads must be a whole number in [1, ",
        ),
        (
            ["kv", "--layers", "1", "--kv-heads", "1", "--head-dim", "9999999999"],
            "--head-dim must be a whole number in [1, ",
        ),
        (
            ["kv", "--layers", "1", "--latent", "9999999999", "--rope-dim", "1"],
            "--latent must be a whole number in [1, ",
        ),
        (["bench", "--rows", "0"], "--rows must be a whole number in [1, 1024], got 0"),
        (["bench", "--prompt", "9999999999"], "--prompt must be a whole number in [0, 1048576], got"),
        (["bench", "--context", "9999999999"], "--context must be a whole number in [0, 1048576], got"),
        (["bench", "--rounds", "0"], "--rounds must be a whole number in [1, 100000], got 0"),
        (["quantize", "a.gguf", "b.gguf", "--type", "q9"], "--type must be one of q4_0"),
    ],
)
def test_commands_with_options_of_their_own_name_those(unspool, model, arguments, says):
    if arguments[0] == "quantize":
        arguments = ["quantize", model, *arguments[2:]]
    ran = unspool(*arguments, *(["--model", model] if arguments[0] == "bench" else []))
    assert (ran.exit_code, ran.out) == (2, "")
    assert says in ran.err


@pytest.mark.parametrize(
    "options", [["--weights", "q5"], ["--runner", "other"], ["--threads", "257"], ["--context", "0"]]
)
def test_what_no_model_can_be_loaded_with_is_refused_before_one_is_fetched(unspool, monkeypatch, options):
    from unspool.cli import load

    monkeypatch.setattr(load, "found_model", lambda *_, **__: pytest.fail("looked for a model"))
    for command in ALL:
        more = ["--verifier", "sum-logprob"] if command == "best" else []
        ran = unspool(*COMMANDS[command], "--model", "gemma3-270m", *options, *more, stdin=b"Hi\n")
        assert (ran.exit_code, ran.out) == (2, ""), ran
    if options[0] == "--threads":
        assert unspool("bench", "--model", "gemma3-270m", *options).exit_code == 2


@pytest.mark.parametrize("search", ["beam:", "beam:width=4,,alpha=1", "beam:width=4,", "sample:"])
def test_a_setting_of_a_search_that_is_empty_is_refused(unspool, fake_llm, search):
    ran = unspool("run", "Hi", "--search", search)
    assert (ran.exit_code, fake_llm.asked) == (2, {})
    assert "got ''" in ran.err or "has no setting ''" in ran.err


def test_weights_that_are_quantized_already_are_refused_by_the_option(unspool, quantized):
    ran = unspool("run", "Hi", "--model", quantized, "--weights", "q4")
    assert (ran.exit_code, ran.out) == (2, "")
    assert ran.err.endswith("is quantized already, as Q8_0; leave --weights out\n")


def test_models_are_called_what_they_were_asked_for_by(unspool, model, quantized, tmp_path, monkeypatch):
    from unspool.cli import load

    tokens, metadata = "tokenizer.ggml.tokens", byte_tokenizer_metadata()
    metadata[tokens] = [*metadata[tokens][1:257], metadata[tokens][0], *metadata[tokens][257:]]
    other = write_gguf(tmp_path / "other.gguf", tiny_source(TinySpec(vocab_size=258)), extra=metadata)
    places = {"big": model, "small": quantized, "other": other}
    monkeypatch.setattr(load, "found_model", lambda name, **_: Path(places[name]))
    ran = unspool("run", "Hi", "--model", "big", "--amateur", "other")
    assert ran.err.startswith("error: the amateur other has other tokens than big, so what they say"), ran.err
    ran = unspool("run", "Hi", "--model", "small", "--weights", "q4")
    assert ran.err.startswith("error: small: "), ran.err
    assert ran.err.endswith("is quantized already, as Q8_0; leave --weights out\n")


def test_an_error_says_its_settings_to_either_reader():
    error = BadRequest(f"{named('n', 5)} or {named('kv_tokens')}{in_python(', or other')}; {named('own')}")
    assert str(error) == "n=5 or kv_tokens, or other; own"
    assert error.worded(OPTIONS) == "-n 5 or --kv; own"
    assert as_typed(error) == "-n 5 or --kv; own"
    assert error.worded({}) == "n=5 or kv_tokens; own"


def test_values_are_said_to_either_reader():
    error = BadRequest(f"{named('own', None)}, {named('allow_weak', True)}; {as_written('None or False')}")
    assert str(error) == "own=None, allow_weak=True; None or False"
    assert as_typed(error) == "own=none, --with allow_weak=true; none or false"


def test_searches_are_named_as_they_are_typed():
    assert {kind.__name__: name for name, (kind, _) in SEARCHES.items()}.items() <= OPTIONS.items()


def messages(tree):
    """The text of every message that a module raises, but for what `named` and `in_python` say."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Raise) or not isinstance(node.exc, ast.Call) or not node.exc.args:
            continue
        for argument in (*node.exc.args, *(keyword.value for keyword in node.exc.keywords)):
            calls = [call for call in ast.walk(argument) if isinstance(call, ast.Call)]
            said = [c for c in calls if isinstance(c.func, ast.Name) and c.func.id in ("named", "in_python")]
            inside = {id(part) for call in said for part in ast.walk(call)}
            for part in ast.walk(argument):
                if isinstance(part, ast.Constant) and isinstance(part.value, str) and id(part) not in inside:
                    yield part.lineno, part.value


def test_no_message_of_the_library_names_a_setting_of_a_call_outright():
    """Limits are made in Python alone, and refused there."""
    outright = [
        f"{path.relative_to(SOURCE)}:{line}: {name}"
        for path in SOURCE.rglob("*.py")
        if path.name != "limits.py"
        for line, text in messages(ast.parse(path.read_text(encoding="utf-8")))
        for name in CALLED
        if re.search(rf"\b{name}\b", text)
    ]
    assert outright == []
