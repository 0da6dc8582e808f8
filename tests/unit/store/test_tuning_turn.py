import threading
import time

import pytest

from xpu.model import DeviceFacts
from xpu.store import Autotune

FACTS = DeviceFacts(backend="any", multiprocessors=128)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def directory(tmp_path, cache):
    return tmp_path / "store"


def test_one_tunes_and_another_is_told_after_its_wait(directory):
    one, other = Autotune(directory, FACTS), Autotune(directory, FACTS)
    with one.tuning_turn("a", 0.0) as mine:
        assert mine
        began = time.perf_counter()
        with other.tuning_turn("a", 0.15) as theirs:
            assert not theirs
        assert 0.1 < time.perf_counter() - began < 2.0
        with other.tuning_turn("b", 0.0) as another_name:
            assert another_name
    with other.tuning_turn("a", 0.0) as afterwards:
        assert afterwards


def test_who_waited_finds_the_answer(directory):
    one, other = Autotune(directory, FACTS), Autotune(directory, FACTS)
    assert other.recall("a", "build") is None
    has_turn, found = threading.Event(), []

    def wait():
        has_turn.wait(5)
        with other.tuning_turn("a", 5.0):
            found.append(other.recall("a", "build"))

    thread = threading.Thread(target=wait)
    thread.start()
    with one.tuning_turn("a", 0.0):
        has_turn.set()
        time.sleep(0.1)
        one.remember("a", "t8", "build")
    thread.join(10)
    assert found[0].value == "t8"


def test_parts_devices_and_directories_have_turns_of_their_own(directory, tmp_path):
    stores = [
        Autotune(directory, FACTS),
        Autotune(directory, DeviceFacts(backend="any", multiprocessors=128, uuid="other")),
        Autotune(directory, DeviceFacts(backend="any", multiprocessors=64)),
        Autotune(tmp_path / "elsewhere", FACTS),
    ]
    with stores[0].tuning_turn("a", 0.0):
        for store in stores[1:]:
            with store.tuning_turn("a", 0.0) as mine:
                assert mine


def test_a_directory_reached_by_another_way_has_the_same_turns(directory, tmp_path):
    directory.mkdir()
    (tmp_path / "link").symlink_to(directory)
    one, other = Autotune(directory, FACTS), Autotune(tmp_path / "link", FACTS)
    with one.tuning_turn("a", 0.0), other.tuning_turn("a", 0.0) as theirs:
        assert not theirs


def test_the_directory_holds_no_locks(directory, cache):
    store = Autotune(directory, FACTS)
    with store.tuning_turn("../a\0b", 0.0):
        store.remember("../a\0b", "t8", "build")
    assert [path for path in directory.rglob("*") if path.is_file()] == [store.path_of("../a\0b")]
    assert [path.suffix for path in cache.rglob("*") if path.is_file()] in ([], [".lock"])


def test_where_no_lock_can_be_made_everyone_tunes(directory, cache):
    cache.write_text("a file where the cache would be")
    store = Autotune(directory, FACTS)
    with store.tuning_turn("a", 0.0) as one, store.tuning_turn("a", 0.0) as two:
        assert one
        assert two


def test_a_turn_ends_with_an_error_inside_it_and_hides_none(directory):
    store = Autotune(directory, FACTS)
    for error in (OSError("disk"), RuntimeError("probe"), TimeoutError("hung")):
        with pytest.raises(type(error), match=str(error)), store.tuning_turn("a", 0.0):
            raise error
    with store.tuning_turn("a", -1.0) as mine:
        assert mine
