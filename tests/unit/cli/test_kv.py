"""`unspool kv`: tables and JSON of what a model takes."""

from __future__ import annotations

import json

import pytest


def test_the_table_has_the_formula_beside_what_this_engine_takes(unspool) -> None:
    ran = unspool("kv", "--context", "8192", "--batch", "16", "--kv", "int8", "--memory", "8GiB")
    assert ran.exit_code == 0, ran.err
    lines = [line.split("  ") for line in ran.out.splitlines()]
    told = {cells[0]: [cell.strip() for cell in cells[1:] if cell.strip()] for cells in lines}
    assert told["BYTES"] == ["FORMULA, int8", "THIS ENGINE, f16"]
    assert told["KV of a token"] == ["11.2 KiB (11,520)", "22.5 KiB (23,040)"]
    assert told["KV of 16 such"] == ["1.41 GiB (1,509,949,440)", "2.81 GiB (3,019,898,880)"]
    assert told["in 8 GiB, sequences of 8,192"] == ["89", "44"]
    assert "int8 is a what-if, without its scales: this engine stores float16" in ran.out


def test_json_has_the_same_in_bytes(unspool) -> None:
    ran = unspool("kv", "-m", "gemma3-270m", "--context", "8192", "--memory", "2GiB", "--json")
    told = json.loads(ran.out)
    assert told["model"] == "gemma3-270m"
    assert told["formula"]["kv_bytes"] == 3 * 8192 * 1024 + 15 * 512 * 1024
    assert told["engine"]["kv_bytes"] == 8192 * 18_432
    assert told["memory_bytes"] == 2 << 30


@pytest.mark.parametrize(
    ("flags", "token_bytes"),
    [
        (("--layers", "32", "--kv-heads", "8", "--head-dim", "128"), 131_072),
        (("--layers", "60", "--latent", "512", "--rope-dim", "64"), 69_120),
        (
            ("--layers", "4", "--kv-heads", "1", "--head-dim", "8", "--window", "4", "--window-layers", "2"),
            128,
        ),
    ],
)
def test_a_shape_may_be_given_in_numbers(unspool, flags, token_bytes) -> None:
    ran = unspool("kv", *flags, "--json")
    assert json.loads(ran.out)["formula"]["token_bytes"] == token_bytes
    assert json.loads(ran.out)["model"] is None


def test_a_table_says_what_is_not_known_and_what_does_not_run(unspool) -> None:
    out = unspool("kv", "--layers", "60", "--latent", "512", "--rope-dim", "64", "--memory", "1GiB").out
    assert out.startswith("60 layers, latent of 512 + 64\n")
    assert "this engine does not run such a model" in out
    assert "the weights are not known and not counted" in out


def test_windows_and_long_contexts_have_a_note(unspool) -> None:
    out = unspool("kv", "-m", "gemma3-270m", "--context", "40000").out
    assert "this engine keeps all tokens of layers with a window too" in out
    assert "the model's own context is 32,768 tokens" in out


def test_an_amateur_is_counted_beside_the_model(unspool) -> None:
    ran = unspool("kv", "--amateur", "smollm2-135m", "--context", "64")
    assert ran.exit_code == 0, ran.err
    assert ran.out.startswith("smollm2-135m: 30 layers, 3 kv heads of 64; amateur: 30 layers, 3 kv heads")
    assert (
        "for a contrasted sequence this engine takes pages for the amateur beside the model's own" in ran.out
    )
    told = json.loads(unspool("kv", "--amateur", "smollm2-135m", "--context", "64", "--json").out)
    assert (told["amateur"], told["formula"]["token_bytes"]) == ("smollm2-135m", 46_080)
    assert told["engine"]["token_bytes"] == 92_160


def test_what_does_not_fit_is_none(unspool) -> None:
    out = unspool("kv", "--memory", "1MiB").out
    assert out.count("none") == 4


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--batch", "0"), "--batch must be a whole number, at least 1, got 0"),
        (("--context", "x"), "--context must be a whole number, at least 1, got 'x'"),
        (("--kv", "fp8"), "--kv must be one of f16, int8, int4, got 'fp8'; leave it out for f16"),
        (("--memory", "50%"), "GiB, TiB), as in 4.5GiB, got '50%'"),
        (
            ("--memory", "8"),
            "--memory 8 is bytes without a unit, and must then be at least 1048576; add one, as in 8GiB",
        ),
        (("--memory", "1048575"), "--memory 1048575 is bytes without a unit"),
        (("--layers", "2", "--kv-heads", "1", "--head-dim", "8", "--weights", "4.5"), "as in 4.5GiB"),
        (("--memory", "big"), "--memory must be bytes with a unit"),
        (("--page-size", "24"), "--page-size must be a power of two, got 24; 32 is usual"),
        (
            ("--page-size", "0"),
            "--page-size must be a whole number, at least 1, got 0; leave it out for the default",
        ),
        (
            ("--weights", "q8"),
            "--weights must be bytes with a unit (B, kB, MB, GB, TB, KiB, MiB, GiB, TiB), as in",
        ),
        (("--layers", "32"), "a shape needs --layers, --kv-heads, --head-dim; --kv-heads is missing"),
        (("--latent", "512", "--layers", "2"), "a shape needs --layers, --latent, --rope-dim; --rope-dim is"),
        (
            ("--layers", "9999", "--kv-heads", "1", "--head-dim", "8"),
            "--layers must be a whole number in [1, 1024], got 9999; the model's own configuration says it",
        ),
        (
            ("--layers", "2", "--kv-heads", "1", "--head-dim", "8", "--window-layers", "1"),
            "needs --window, got 1",
        ),
        (
            ("--layers", "2", "--latent", "8", "--rope-dim", "8", "--window", "4"),
            "--window has no meaning beside --latent; leave it out",
        ),
        (
            ("-m", "smollm2-135m", "--layers", "2", "--kv-heads", "1", "--head-dim", "8"),
            "--model smollm2-135m has a shape of its own",
        ),
        (("-m", "no-such-model"), "no model named 'no-such-model'"),
        (("--amateur", "no-such-model"), "no model named 'no-such-model'"),
        (("-m", "gemma3-270m", "--amateur", "smollm2-135m"), "the amateur has 49152 tokens and the model"),
        (("--amateur", "gemma3-270m"), "the amateur gemma3-270m has other tokens than smollm2-135m, so"),
        (
            ("--amateur", "smollm2-135m", "--layers", "2", "--kv-heads", "1", "--head-dim", "8"),
            "--amateur 'smollm2-135m' reads beside a model, and a shape in numbers is none; give --model",
        ),
    ],
)
def test_what_has_no_meaning_is_one_line_and_exit_2(unspool, arguments, words) -> None:
    ran = unspool("kv", *arguments)
    assert ran.exit_code == 2
    assert ran.out == ""
    assert words in ran.err
    assert ran.err.count("\n") == 1
