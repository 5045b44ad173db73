"""Hostile templates: no way into Python, no endless loop, no text without bound."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unspool.errors import TemplateError
from unspool.models import chat_limits
from unspool.models.chat_template import ChatTemplate


class SpecialTokens:
    special_tokens = {"bos_token": "<s>"}  # noqa: RUF012


def render(source: str, content: str = "Hi") -> str:
    chat = ChatTemplate("hostile", {"default": source}, SpecialTokens())  # type: ignore[arg-type]
    return chat.render([{"role": "user", "content": content}])


@pytest.mark.parametrize(
    "source",
    [
        "{{ ''.__class__ }}",
        "{{ ''['__class__'] }}",
        "{{ '' | attr('__class__') }}",
        "{{ messages.__class__.__mro__[1].__subclasses__() }}",
        "{{ raise_exception.__globals__ }}",
        "{{ strftime_now.__globals__['os'] }}",
        "{{ self.__init__.__globals__ }}",
        "{{ namespace.__init__ }}",
        "{{ cycler.__init__.__globals__.os.system('true') }}",
        "{{ joiner.__init__.__globals__ }}",
        "{{ dict.__class__ }}",
        "{{ '{0.__class__}'.format(1) }}",
        "{{ '{0.__class__.__mro__}'.format(messages) }}",
        "{{ '{x.__class__}'.format_map({'x': 1}) }}",
        "{{ ('{0.__class__}' | attr('format'))(1) }}",
        "{{ [1] | map(attribute='__class__') | list }}",
        "{{ [''] | map('attr', '__class__') | list }}",
        "{{ namespace(__class__=1) }}",
        "{% set ns = namespace() %}{% set ns.__class__ = 1 %}",
        "{{ messages.append(1) }}",
        "{{ messages[0].update(role='system') }}",
        "{{ messages.clear() }}",
        "{% macro f() %}{% endmacro %}{{ f.__call__.__globals__ }}",
        "{% for m in messages %}{{ loop.__init__.__globals__ }}{% endfor %}",
        "{{ lipsum(n=5) }}",
    ],
)
def test_python_is_out_of_reach(source: str) -> None:
    try:
        text = render(source)
    except TemplateError:
        return
    assert text in ("", "[Undefined]")  # an unsafe attribute is undefined and shows nothing


GROWING = "{% set ns = namespace(s='0123456789') %}{% for i in range(60) %}{% set ns.s = STEP %}{% endfor %}"


@pytest.mark.parametrize(
    "source",
    [
        "{{ 'a' * 10000000000 }}",
        "{{ 10000000000 * 'a' }}",
        "{{ [1] * 10000000000 }}",
        "{{ (1,) * 10000000000 }}",
        "{{ 2 ** 1000000000 }}",
        "{{ 2 ** 4000 * 2 ** 4000 }}",
        "{{ '%1000000000d' % 1 }}",
        "{{ '%*d' % (1000000000, 1) }}",
        "{{ '%1000000000d' | format(1) }}",
        "{{ '{:>1000000000}'.format(1) }}",
        "{{ '{:>{w}}'.format(1, w=1000000000) }}",
        "{{ '{:>{w}}'.format_map({'w': 1000000000}) }}",
        "{{ 'a'.center(1000000000) }}",
        "{{ 'a'.ljust(width=1000000000) }}",
        "{{ 'a'.encode().zfill(1000000000) }}",
        "{{ (5).to_bytes(1000000000, 'big') }}",
        "{{ ('\\t' * 100000).expandtabs(100000) }}",
        "{{ ('a' * 100000).replace('a', 'b' * 100000) }}",
        "{{ ('a' * 100000).replace('', 'b' * 100000) }}",
        "{{ ('b' * 100000).join('a' * 100000) }}",
        "{{ ('a' * 100000).translate({97: 'b' * 100000}) }}",
        "{{ 'a' | center(1000000000) }}",
        "{{ 'a' | indent(1000000000, first=true) }}",
        "{{ ('\\n' * 100000) | indent(100000) }}",
        "{{ ('a' * 100000) | wordwrap(1, wrapstring='b' * 100000) }}",
        "{{ ('a' * 100000) | replace('a', 'b' * 100000) }}",
        "{{ range(100000) | join('b' * 100000) }}",
        "{{ ('b' * 100000).join(range(100000) | map('string')) }}",
        "{{ ['b' * 100000] * 100000 }}",
        "{{ (['b' * 100000] * 100000) | string | length }}",
        "{{ {'a': ['b' * 100000] * 100000} | tojson | length }}",
        "{{ 'a' ~ ['b' * 100000] * 100000 }}",
        "{{ ([{'a': 'b' * 100000}] * 100000) | join(attribute='a') }}",
        "{{ '%(a)s' * 1000 % {'a': 'b' * 100000} }}",
        "{{ ('{0}' * 1000).format('b' * 100000) }}",
        "{{ namespace(a=['b' * 100000] * 100000) }}",
        GROWING.replace("'0123456789'", "[]").replace("STEP", "[ns.s, ns.s]") + "{{ ns.s }}",
        "{{ [1] | batch(1000000000, 0) | list }}",
        "{{ [1] | slice(1000000000) | list }}",
        "{{ {'a': 1} | tojson(indent=1000000000) }}",
        "{{ 1 | round(1000000000, 'ceil') }}",
        "{{ range(1000000000) | list }}",
        GROWING.replace("STEP", "ns.s + ns.s"),
        GROWING.replace("STEP", "ns.s ~ ns.s"),
        GROWING.replace("STEP", "ns.s ~ ns.s ~ 1") + "{{ ns.s }}",
        GROWING.replace("STEP", "'%s%s' % (ns.s, ns.s)"),
        GROWING.replace("STEP", "'%s%s' | format(ns.s, ns.s)"),
        GROWING.replace("STEP", "'{0}{0}'.format(ns.s)"),
        GROWING.replace("STEP", "[ns.s, ns.s] | join"),
        GROWING.replace("STEP", "ns.s.replace('0', '00')"),
        GROWING.replace("'0123456789'", "[1]").replace("STEP", "ns.s + ns.s"),
        GROWING.replace("'0123456789'", "3").replace("STEP", "ns.s * ns.s"),
        "{% set ns = namespace(s='ab') %}{% for i in range(60) %}"
        "{% set t %}{{ ns.s }}{{ ns.s }}{% endset %}{% set ns.s = t %}{% endfor %}",
        "{% macro f(s, n) %}{{ f(s, n - 1) ~ f(s, n - 1) if n else s }}{% endmacro %}{{ f('a' * 1000, 60) }}",
        "{% for a in range(99999) %}{{ 'x' * 1000 }}{% endfor %}",
    ],
)
def test_text_lists_and_numbers_are_refused_by_their_size_before_time_runs_out(source: str) -> None:
    with pytest.raises(TemplateError, match=r"fails: (makes|uses|formats|OverflowError: Range too big)"):
        render(source)


@pytest.mark.parametrize(
    "source",
    [
        "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
        "{% for a in range(99999) %}{% for b in range(99999) %}{% else %}{% endfor %}{% endfor %}",
        "{% macro f(n) %}{{ f(n - 1) if n }}{{ f(n - 1) if n }}{% endmacro %}{{ f(80) }}",
        "{% for a in range(99999) %}{% set x = range(99999) | sum %}{% endfor %}",
        "{% for x in [[1]] recursive %}{{ loop([x, x, x]) }}{% endfor %}",
    ],
)
def test_a_template_that_never_ends_is_stopped(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat_limits, "MAX_CPU_S", 0.2)
    with pytest.raises(TemplateError, match=r"fails: (ran for more than 0\.2 s|RecursionError)"):
        render(source)


def test_an_absurd_template_is_refused_before_it_runs() -> None:
    for source in (
        "x" * ((1 << 20) + 1),
        "{{ " + "(" * 5000 + ")" * 5000 + " }}",
        "{% if 1 %}" * 200 + "{% endif %}" * 200,
    ):
        with pytest.raises(TemplateError, match=r"does not (compile|parse)"):
            render(source)


def test_long_honest_text_passes() -> None:
    content = "word " * 200_000
    assert (
        len(render("{% for m in messages %}{{ m.role ~ ': ' + m.content | trim }}{% endfor %}", content))
        > 900_000
    )
    assert render("{{ messages[0].content.replace('word', 'w') | length }}", content) == "400000"


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("{{ {'a': '<é&>'} | tojson }}", '{"a": "<é&>"}'),
        ("{{ {'b': 1, 'a': 2} | tojson(indent=2) }}", '{\n  "b": 1,\n  "a": 2\n}'),
        ("{{ [1, 2] | tojson(separators=(',', ':'), sort_keys=true) }}", "[1,2]"),
        ("{{ 'é' | tojson(ensure_ascii=true) }}", '"\\u00e9"'),
        (
            "{% for i in range(9) %}{% if i == 1 %}{% continue %}{% endif %}"
            "{% if i == 3 %}{% break %}{% endif %}{{ i }}{% endfor %}",
            "02",
        ),
        ("a{% generation %}{{ messages[0].content }}{% endgeneration %}b", "aHib"),
        ("{% set x = 1 %}{% generation %}{% set x = 2 %}{{ x }}{% endgeneration %}{{ x }}", "21"),
        ("{% for i in [] %}{% else %}none{% endfor %}", "none"),
        (
            "{{ dict(a=1, **{'b': 2}) | items | list }}{{ dict.fromkeys('ab', 1) }}",
            "[('a', 1), ('b', 2)]{'a': 1, 'b': 1}",
        ),
        ("{% set ns = namespace(self=1) %}{% set ns.a = ns.self + 1 %}{{ ns.a }}", "2"),
        (
            "{{ 2 ** 10 }} {{ 'ab' * 3 }} {{ [1] * 2 + [3] }} {{ 7 % 4 }} {{ '%05.1f|%s' % (2, 'x') }}",
            "1024 ababab [1, 1, 3] 3 002.0|x",
        ),
        ("{{ '{:>4}{name}'.format(1, name='n') }}{{ '{a}'.format_map({'a': 2}) }}", "   1n2"),
        (
            "{{ 'a'.center(3) }}|{{ 'a' | center(3) }}|{{ '\tx'.expandtabs(2) }}|"
            "{{ 'ab'.translate({97: 'x'}) }}",
            " a | a |  x|xb",
        ),
        ("{{ 5 | default(100000000) }}{{ none | default(100000000, true) }}", "5100000000"),
        ("{{ 'a' ~ 1 ~ none ~ nothing ~ [1] }}", "a1None[1]"),
    ],
)
def test_what_templates_use_works(source: str, text: str) -> None:
    assert render(source) == text


def test_the_clock_is_the_local_time() -> None:
    assert render("{{ strftime_now('%Y') }}") >= "2024"


WORDS = """{{ }} {% %} {# #} for m in messages endfor if m endif else set x = m.content messages [0] .role |
trim tojson join ( ) ~ + * 'a' 9 999999999999 macro f(x) endmacro f(x) namespace(a=1) range(9) generation
endgeneration raise_exception('no') loop.index __class__ x is defined not in .items()"""
_fragments = st.sampled_from(WORDS.split())


@settings(max_examples=300, deadline=None)
@given(
    source=st.lists(_fragments, max_size=25).map(" ".join) | st.text(alphabet="{}%#'|()~ ax1\n", max_size=40)
)
def test_any_text_is_a_template_that_renders_or_a_typed_error(source: str) -> None:
    try:
        outcome = render(source)
    except TemplateError as error:
        outcome = str(error)
        assert_one_line(outcome)
    assert isinstance(outcome, str)


def assert_one_line(text: str) -> None:
    assert "\n" not in text
