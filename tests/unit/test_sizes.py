"""Sizes of memory as people write them."""

from __future__ import annotations

import pytest

from unspool.errors import BadRequest
from unspool.sizes import read_bytes, read_size, shown


@pytest.mark.parametrize(
    ("written", "size"),
    [
        (4096, 4096),
        ("1B", 1),
        ("2GiB", 2 << 30),
        ("2 gib", 2 << 30),
        ("500MB", 500_000_000),
        ("1.5KiB", 1536),
        (".5kB", 500),
        ("1TB", 10**12),
        (" 3 TiB ", 3 << 40),
        (0.5, 0.5),
        (1.0, 1.0),
        ("50%", 0.5),
        ("12.5 %", 0.125),
        ("100%", 1.0),
    ],
)
def test_a_size_is_bytes_or_a_part(written, size):
    found = read_size("kv_memory", written)
    assert found == size
    assert type(found) is type(size)


NUMBERS = [0, -1, 0.0, 1.5, -0.5, True, None, b"2GiB"]
TEXTS = ["", "2", "2G", "2 XB", "0B", "-1GiB", "101%", "0%", "1e3B", "nan"]


@pytest.mark.parametrize("written", NUMBERS + TEXTS)
def test_what_is_no_size_is_refused_with_the_value_and_the_units(written):
    with pytest.raises(
        BadRequest, match=r"^size must be bytes with a unit .*GiB.* or a part .*, got "
    ) as refused:
        read_size("size", written)
    assert refused.value.code == "bad_size"


def test_a_float_that_is_no_number_is_refused():
    with pytest.raises(BadRequest, match="got nan"):
        read_size("--kv", float("nan"))


def test_bytes_alone_take_no_part():
    assert read_bytes("--memory", "8GiB") == 8 << 30
    with pytest.raises(
        BadRequest, match=r"--memory must be bytes with a unit .*, as in 4\.5GiB, got '50%'"
    ) as refused:
        read_bytes("--memory", "50%")
    assert refused.value.code == "bad_memory"


@pytest.mark.parametrize(
    ("n_bytes", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "0.977 KiB"),
        (1536, "1.5 KiB"),
        (188_743_680, "180 MiB"),
        (3 << 29, "1.5 GiB"),
        (1 << 50, "1024 TiB"),
    ],
)
def test_bytes_are_shown_with_three_figures(n_bytes, text):
    assert shown(n_bytes) == text
