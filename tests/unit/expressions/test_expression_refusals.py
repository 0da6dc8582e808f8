import time

import pytest

from xpu.errors import XpuConfigError
from xpu.expressions import MAX_DEPTH, MAX_LENGTH, Expression, Names

NAMES = Names(
    device={"multiprocessors", "wave_width"},
    kernel={"registers"},
    member={"tile_m"},
    problem={"m", "n", "k"},
)


def refusal(text, names=None, local_names=()):
    started = time.perf_counter()
    with pytest.raises(XpuConfigError) as caught:
        Expression(text, names, local_names)
    assert time.perf_counter() - started < 2
    message = str(caught.value)
    assert "\n" not in message
    assert len(message) < 600
    return message


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("__import__('os').system('id')", "__import__"),
        ("eval(1)", "eval"),
        ("().__class__", ".__class__"),
        ("(1).real", ".real"),
        ("device.wave_width.real", "device.wave_width.real"),
        ("device.__class__.__mro__", "device.__class__.__mro__"),
        ("lambda: 1", "lambda"),
        ("[1, 2]", "[1"),
        ("[x for x in y]", "[x"),
        ("{1: 2}", "{1:"),
        ("(x for x in y)", "x"),
        ("'text'", "text"),
        ('"text"', "text"),
        ("f'{1}'", "f"),
        ("b'1'", "b"),
        ("(n := 1)", "n"),
        ("min(*device.wave_width, 2)", "'*device.wave_width'"),
        ("min(1, **2)", "**"),
        ("min(1, key=2)", "key"),
        ("2 ** 3", "2 ** 3"),
        ("1 << 2", "1 << 2"),
        ("1 & 2", "&"),
        ("1 | 2", "|"),
        ("1 @ 2", "@"),
        ("~1", "~"),
        ("1, 2", "'1, 2'"),
        ("()", "()"),
        ("1; 2", ";"),
        ("x = 1", "x"),
        ("1 #", "#"),
        ("1 \\\n + 2", "\\"),
        ("True", "True"),
        ("None", "None"),
        ("...", "..."),
        ("await 1", "await"),
        ("1 in 2", "in"),
        ("1 is 2", "is"),
        ("1j", "1j"),
        ("0x10", "0x10"),
        ("1if 2 else 3", "1if"),
        ("1 if", "1 if"),
        ("1 if 2", "1 if 2"),
        ("1 +", "1 +"),
        (")", ")"),
        ("007", "007"),
        ("1__0", "1__0"),
        ("min", "min"),
        ("min + 1", "min"),
        ("min(1, 2)(3)", "min(1, 2)(3)"),
        ("1(2, 3)", "1(2, 3)"),
        ("abs(1)", "abs"),
        ("pow(2, 3)", "pow"),
        ("need", "need"),
        ("\x001", "\\x00"),
        ("1\x00", "\\x00"),
        ("1 + é", "é"),
        ("1 \u2212 2", "\u2212"),
        ("\u0661", "\u0661"),
        ("1\u00a0+ 2", "\\xa0"),
        ("device.wave\u005fwidth\u200b", "\\u200b"),
        ("\ufeff1", "\\ufeff"),
        ("\ud800", "\\ud800"),
    ],
)
def test_the_offending_part_and_what_is_allowed_are_named(text, part):
    said = refusal(text).removeprefix(f"expression {text!r}: ")
    named, _, allowed = said.partition("allowed: ")
    assert part in named
    assert allowed.startswith("numbers")


@pytest.mark.parametrize("text", ["", " ", "\n\t"])
def test_an_empty_text_is_refused(text):
    assert "empty" in refusal(text)


@pytest.mark.parametrize(("text", "count"), [("min(1)", 1), ("max()", 0), ("ceil_div(1, 2, 3)", 3)])
def test_a_wrong_number_of_arguments_is_named(text, count):
    assert f"not {count}" in refusal(text)


@pytest.mark.parametrize(
    "text",
    [
        "(" * 490 + "1" + ")" * 490,
        "-" * 999 + "1",
        "not " * 240 + "1",
        "+".join("1" * 400),
        "min(1," * 100 + "1" + ")" * 100,
        "1 if 1 else " * 70 + "1",
        "(" * 999,
        "1**" * 300 + "1",
        "1**" * 90 + "1",
        "1," * 400,
        "(1," * 90 + "1" + ")" * 90,
    ],
)
def test_deep_nesting_is_refused(text):
    assert len(text) <= MAX_LENGTH
    refusal(text)


def test_depth_at_the_limit_is_read():
    assert Expression("-" * (MAX_DEPTH - 1) + "1").evaluate({}) in (1, -1)
    assert "nested" in refusal("-" * MAX_DEPTH + "1")


def test_length_at_the_limit_is_read():
    text = "1" + " " * (MAX_LENGTH - 1)
    assert Expression(text).evaluate({}) == 1
    assert str(MAX_LENGTH) in refusal(text + " ")
    refusal("1" * 10_000_000)


@pytest.mark.parametrize(
    "text", ["9" * 500, "1e999", "1e39", str(2**128 + 1), "1" + "0" * 900 + ".5"]
)
def test_a_literal_out_of_bounds_is_refused(text):
    assert "too large" in refusal(text)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("device.multiprocesors", "did you mean 'device.multiprocessors'"),
        ("kernel.register", "did you mean 'kernel.registers'"),
        ("member.tile_n", "did you mean 'member.tile_m'"),
        ("problem.x", "allowed: problem.k, problem.m, problem.n"),
        ("launch.thread", "did you mean 'launch.threads'"),
        ("devise.wave_width", "did you mean 'device'"),
        ("os.system", "allowed: device, kernel, launch, member, problem"),
        ("device.__class__", "allowed: device.multiprocessors, device.wave_width"),
        ("ceildiv(1, 2)", "did you mean 'ceil_div'"),
    ],
)
def test_an_unknown_name_gets_the_nearest(text, hint):
    assert hint in refusal(text, NAMES)


def test_locals_are_allowed_by_name_only():
    Expression("need > limit", NAMES, ("need", "limit"))
    assert "did you mean 'need'" in refusal("ned > limit", NAMES, ("need", "limit"))


def test_without_names_any_fact_of_a_known_namespace_is_read_and_absent():
    text = "device.a + kernel.b + member.c + problem.d + launch.threads"
    assert Expression(text).evaluate({}) is None
    refusal("launch.grid")


def test_a_hidden_attribute_reaches_nothing():
    scope = {"device.multiprocessors": 4}
    assert Expression("device.__class__").evaluate(scope) is None
