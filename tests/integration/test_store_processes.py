"""Processes that share a store: no answer lost or torn, whoever is killed."""

import hashlib
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

import xpu
from xpu.model import DeviceFacts
from xpu.store import Autotune, stored_entries
from xpu.store.disk import TEMPORARY

FACTS = DeviceFacts(backend="any", multiprocessors=128, uuid="part")
BUILD = "build"
DEADLINE_S = 30.0

# Prints "ready", then a line for each name: tuned or found; the last name comes last. The
# value's hash is a note, so that an answer put together from two of them is seen.
WORKER = """
import hashlib, random, sys, time
from xpu.model import DeviceFacts
from xpu.store import Autotune

directory, seed, tuning_s, *names, last = sys.argv[1:]
choose = random.Random(seed)
store = Autotune(directory, DeviceFacts(backend="any", multiprocessors=128, uuid="part"))
choose.shuffle(names)
print("ready", flush=True)
sys.stdin.readline()
for name in [*names, last]:
    with store.tuning_turn(name, 20.0) as is_mine:
        entry = store.recall(name, "build")
        word = "found"
        if entry is None and is_mine:
            time.sleep(float(tuning_s) * choose.random())
            value = "%s %s " % (seed, name) + "x" * choose.randrange(20000)
            digest = hashlib.sha256(value.encode()).hexdigest()
            word = "tuned" if store.remember(name, value, "build", digest=digest) else "unwritten"
    print(word, name, flush=True)
"""


@pytest.fixture
def start(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(Path(xpu.__file__).parents[1]))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    running = []

    def starter(count, names, tuning_s):
        for seed in range(count):
            command = [sys.executable, "-c", WORKER, str(tmp_path / "store"), str(seed)]
            running.append(
                subprocess.Popen(
                    [*command, str(tuning_s), *names],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                )
            )
        for process in running:  # all of them are there before the first one begins
            assert process.stdout.readline() == "ready\n"
        for process in running:
            process.stdin.write("\n")
            process.stdin.flush()
        return list(running)

    yield starter
    for process in running:
        process.kill()
        process.communicate()


def words(processes):
    told = []
    for process in processes:
        out, err = process.communicate(timeout=DEADLINE_S)
        assert err == ""
        told += [tuple(line.split(" ", 1)) for line in out.splitlines()]
    return told


def is_whole(entry):
    return entry.notes["digest"] == hashlib.sha256(entry.value.encode()).hexdigest()


def test_eight_processes_three_of_them_killed_lose_and_tear_nothing(tmp_path, start):
    names = [f"shape.q4k_tile.{m}x4096x4096" for m in range(1, 31)]
    last, chance = names[-1], random.Random()
    # While the turn at the last name is held here, no victim can finish before it is killed.
    with Autotune(tmp_path / "store", FACTS).tuning_turn(last, 0.0):
        processes = start(8, names, 0.06)
        victims = chance.sample(processes, 3)
        for victim in victims:
            pause = time.monotonic() + chance.uniform(0.0, 0.35)
            while time.monotonic() < pause:  # a reader meanwhile never sees half an answer
                for entry in stored_entries(tmp_path / "store"):
                    assert not entry.fault
                    assert is_whole(entry)
                time.sleep(0.01)
            victim.send_signal(signal.SIGKILL)
    told = words(processes)
    assert all(victim.returncode == -signal.SIGKILL for victim in victims)
    assert {process.returncode for process in processes if process not in victims} == {0}

    entries = {entry.name: entry for entry in stored_entries(tmp_path / "store")}
    assert set(entries) == set(names)
    assert all(not entry.fault and is_whole(entry) for entry in entries.values())
    # No name was tuned twice; what a victim tuned it may not have lived to tell.
    tuned = Counter(name for word, name in told if word == "tuned")
    assert max(tuned.values()) == 1
    assert len(tuned) >= len(names) - len(victims)
    assert {word for word, _ in told} == {"tuned", "found"}


def test_half_written_files_of_the_killed_are_no_answers_and_go(tmp_path, start):
    names = [f"name {number}" for number in range(40)]
    for process in (processes := start(3, names, 0.002)):
        time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
    words(processes)
    store = Autotune(tmp_path / "store", FACTS)
    place = store.path_of("x").parent
    place.mkdir(parents=True, exist_ok=True)
    (place / f"{TEMPORARY}1-left").write_text("half")
    for path in place.glob(f"{TEMPORARY}*"):
        os.utime(path, (1, 1))
    assert not [entry for entry in store.entries() if entry.fault]
    for name in names:
        entry = store.recall(name, BUILD)
        assert entry is None or is_whole(entry)
        assert store.remember(name, "again", BUILD)
    assert len(list(place.iterdir())) == len(names)
    assert {entry.value for entry in store.entries()} == {"again"}


def test_of_four_processes_one_tunes_each_name_and_the_others_find_it(tmp_path, start):
    names = ["a", "b/..", "c " * 150]
    told = words(start(4, names, 0.2))
    assert Counter(word for word, _ in told) == {"tuned": 3, "found": 9}
    assert {name for word, name in told if word == "tuned"} == set(names)
