from __future__ import annotations

import secrets

import pytest

from xpu.choice import Proofs

JUDGES = ("design 1", "design 2")


@pytest.fixture
def code():
    return secrets.token_hex(32)


@pytest.mark.parametrize("status", ["well", "wrong", "failed", "hung", "crashed"])
def test_a_proof_is_found_by_the_next_process(tmp_path, code, status):
    note = "largest error 1e9 at\n  (3, 4): π"
    Proofs(tmp_path / "deep" / "proofs", "device driver").record(code, status, note)
    proof = Proofs(tmp_path / "deep" / "proofs", "device driver").find(code)
    assert (proof.status, proof.note) == (status, "largest error 1e9 at (3, 4): π")
    assert proof.path.is_file()
    assert Proofs(tmp_path, "device driver").find(code) is None


def test_it_holds_for_no_other_device_or_driver(tmp_path, code):
    Proofs(tmp_path, "device 1.0").record(code, "crashed")
    assert Proofs(tmp_path, "device 1.1").find(code) is None
    assert Proofs(tmp_path, "device 1.0").find(code).status == "crashed"


@pytest.mark.parametrize("status", ["wrong", "hung", "crashed"])
def test_a_bad_proof_holds_while_its_judge_is_the_same(tmp_path, code, status):
    Proofs(tmp_path, "c", lambda: "design 1").record(code, status, "why")
    same, mended = (Proofs(tmp_path, "c", lambda judge=judge: judge) for judge in JUDGES)
    assert (same.find(code).status, same.is_lapsed(code)) == (status, False)
    assert (mended.find(code), mended.is_lapsed(code)) == (None, True)
    mended.record(code, status, "again")
    assert (mended.find(code).note, mended.is_lapsed(code)) == ("again", False)


def test_code_that_ran_well_did_so_for_any_judge_and_none_is_asked(tmp_path, code):
    def judge():
        raise AssertionError("reading the sources costs time")

    Proofs(tmp_path, "c", judge).record(code, "well")
    later = Proofs(tmp_path, "c", judge)
    assert (later.find(code).status, later.is_lapsed(code)) == ("well", False)


@pytest.mark.parametrize("status", ["well", "wrong", "crashed"])
def test_what_was_bad_while_its_judge_was_edited_holds_here_alone(tmp_path, code, status):
    edited = Proofs(tmp_path, "c", lambda: "design 1", lambda: True)
    edited.record(code, status)
    assert (edited.find(code).status, edited.is_lapsed(code)) == (status, False)
    later = Proofs(tmp_path, "c", lambda: "design 1")
    assert (later.find(code) is None, later.is_lapsed(code)) == (status != "well", status != "well")


def test_what_lapsed_is_dropped_when_it_is_about_to_be_tried(tmp_path, code):
    Proofs(tmp_path, "c", lambda: JUDGES[0]).record(code, "wrong")
    mended = Proofs(tmp_path, "c", lambda: JUDGES[1])
    assert mended.is_lapsed(code)
    for _ in range(2):
        mended.forget(code)
        assert not mended.is_lapsed(code)
    assert list(tmp_path.iterdir()) == []
    Proofs(None, "c").forget(code)


def test_deleting_the_file_asks_for_another_try(tmp_path, code):
    Proofs(tmp_path, "c").record(code, "hung", "why")
    Proofs(tmp_path, "c").find(code).path.unlink()
    assert Proofs(tmp_path, "c").find(code) is None


def test_the_last_word_counts(tmp_path, code):
    proofs = Proofs(tmp_path, "c")
    proofs.record(code, "well")
    proofs.record(code, "wrong", "why")
    for each in (proofs, Proofs(tmp_path, "c")):
        assert each.find(code).status == "wrong"
    assert [path.name for path in tmp_path.iterdir()] == [code]


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[:-1],
        lambda text: text[:-4],
        lambda text: text + "more\n",
        lambda text: text.replace("crashed", "charmed"),
        lambda text: text.replace("end", "and"),
        lambda text: text[:0],
        lambda text: "\0" * len(text),
        lambda text: text * 2,
    ],
)
def test_a_damaged_file_proves_nothing(tmp_path, code, damage):
    Proofs(tmp_path, "c").record(code, "crashed", "why")
    place = tmp_path / code
    place.write_text(damage(place.read_text()))
    assert Proofs(tmp_path, "c").find(code) is None
    place.write_bytes(b"\xff\xfe")
    assert Proofs(tmp_path, "c").find(code) is None


def test_a_directory_in_its_place_proves_nothing(tmp_path, code):
    (tmp_path / code).mkdir()
    proofs = Proofs(tmp_path, "c")
    assert proofs.find(code) is None
    proofs.record(code, "well")
    assert proofs.find(code).status == "well"


def test_where_nothing_can_be_written_it_lasts_for_the_process(tmp_path, code):
    (tmp_path / "file").write_text("in the way")
    proofs = Proofs(tmp_path / "file" / "proofs", "c")
    proofs.record(code, "crashed", "why")
    proof = proofs.find(code)
    # No path: a message must not tell to delete what is not there.
    assert (proof.status, proof.note, proof.path) == ("crashed", "why", None)
    for _ in range(2):
        only = Proofs(None, "c")
        assert only.find(code) is None
        only.record(code, "well")
        assert only.find(code).status == "well"
