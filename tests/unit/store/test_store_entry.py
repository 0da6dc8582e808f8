import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xpu.store import Entry
from xpu.store.entry import from_bytes, to_bytes
from xpu.store.names import file_name, is_shortened

ANY_TEXT = st.text(st.characters(), max_size=40)
NAMES = ANY_TEXT | st.sampled_from(["x" * 400, "é" * 300, "end", "name", "%-"])
NOTES = st.dictionaries(ANY_TEXT.filter(lambda note: note != "name"), ANY_TEXT, max_size=4)
ENTRIES = st.builds(Entry, ANY_TEXT, ANY_TEXT, NOTES)
ENTRY = Entry("t64x64", "0123abcd", {"margin_permille": "20", "tie": "True"})
FILE = "shape.q4k_tile.512x4096x4096"
GOOD = to_bytes(FILE, ENTRY)


@given(NAMES, ENTRIES)
def test_what_is_written_is_read(name, entry):
    assert from_bytes(file_name(name), to_bytes(name, entry)) == (name, entry)


@given(NAMES, ENTRIES)
def test_a_line_is_a_line_whatever_the_answer_holds(name, entry):
    text = to_bytes(name, entry).decode("ascii")
    assert text.endswith("\nend\n")
    has_name_line = is_shortened(file_name(name))
    assert text.count("\n") == 3 + len(entry.notes) + has_name_line
    assert all(line.isprintable() for line in text.split("\n"))


def test_the_file_is_for_people():
    assert GOOD.decode() == "t64x64\n0123abcd\nmargin_permille 20\ntie True\nend\n"


def test_a_file_written_by_hand_is_an_answer():
    assert from_bytes("partWgs", "größe\nb\nwhy wärme 5 %\nend".encode()) == (
        "partWgs",
        Entry("größe", "b", {"why": "wärme 5 %"}),
    )


@given(NAMES, ENTRIES, st.data())
def test_a_truncated_file_is_no_answer(name, entry, data):
    whole = to_bytes(name, entry)
    # Without the last line break the last line is still there, and all before it.
    kept = data.draw(st.integers(0, len(whole) - 2))
    with pytest.raises(ValueError):
        from_bytes(file_name(name), whole[:kept])


@given(NAMES, ENTRIES, ENTRIES)
def test_doubled_content_is_no_answer(name, entry, other):
    with pytest.raises(ValueError):
        from_bytes(file_name(name), to_bytes(name, entry) + to_bytes(name, other))


@given(st.binary(max_size=200))
def test_arbitrary_bytes_never_fail_otherwise(data):
    try:
        name, entry = from_bytes(FILE, data)
    except ValueError as error:
        told = error
    else:
        told = None
        assert name == FILE
        assert from_bytes(FILE, to_bytes(name, entry)) == (name, entry)
    assert not isinstance(told, UnicodeError)  # its message would say nothing of the file


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\n",
        b"end\n",
        b"t\nend\n",
        GOOD.replace(b"end\n", b""),
        GOOD + b"more\n",
        GOOD + b"\n",
        GOOD.replace(b"\n", b"\r\n"),
        GOOD.replace(b"t64", b"t\0"),
        GOOD.replace(b"t64", b"\xff\xfe"),
        GOOD.replace(b"t64", b"%FF"),
        GOOD.replace(b"tie True", b"tie"),
        GOOD.replace(b"tie True", b"margin_permille 21"),
        b"\0" * 100,
        b'{"schema": 2, "value": "t64x64", "build_id": "0123abcd"}\n',
    ],
)
def test_anything_else_is_no_answer(data):
    with pytest.raises(ValueError):
        from_bytes(FILE, data)


def test_a_file_under_another_name_is_no_answer():
    long = "x" * 400
    with pytest.raises(ValueError, match="name"):
        from_bytes(file_name(long + "y"), to_bytes(long, ENTRY))
    with pytest.raises(ValueError, match="name"):
        from_bytes(file_name(long), GOOD)
    with pytest.raises(ValueError, match="name"):
        from_bytes("not quoted", GOOD)


def test_an_entry_cannot_change_and_leaves_absent_notes_out():
    notes = {"margin_permille": None, "tie": True, "rounds": 14}
    entry = Entry("t", "b", notes)
    notes["tie"] = False
    assert dict(entry.notes) == {"tie": "True", "rounds": "14"}
    assert entry == Entry("t", "b", {"rounds": "14", "tie": "True"})
    assert hash(entry) == hash(Entry("t", "b", {"rounds": "14", "tie": "True"}))
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        entry.value = "u"
    with pytest.raises(TypeError):
        entry.notes["tie"] = "False"
