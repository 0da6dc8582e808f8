from __future__ import annotations

import tomllib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xpu.adaptor.manifest_file import manifest_from_toml, manifest_to_toml
from xpu.errors import XpuBuildError
from xpu.model import BufferAccess, KernelFacts, Manifest, Operation

# TOML holds no surrogates; everything else must come back as it was.
texts = st.text(st.characters(exclude_categories=["Cs"]))
counts = st.none() | st.integers(1, 2**62)
modes = st.sampled_from(["read", "write", "update", "unused"])
tiers = st.sampled_from(["native", "software", "demoted"])
whole = st.none() | st.integers(0, 2**62)


@st.composite
def manifests(draw):
    return Manifest(
        kernel=draw(texts),
        target=draw(texts),
        code_hash=draw(texts),
        compiler=draw(texts),
        entry=draw(texts),
        footprint=KernelFacts(
            registers=draw(counts),
            spill_bytes=draw(whole),
            static_shared_bytes=draw(whole),
            stack_bytes=draw(whole),
            pinned_block=draw(counts),
        ),
        buffers=tuple(
            BufferAccess(name, mode, derived)
            for name, mode, derived in draw(
                st.lists(st.tuples(texts, modes, st.booleans()), max_size=3)
            )
        ),
        operations=tuple(
            Operation(*parts)
            for parts in draw(st.lists(st.tuples(texts, tiers, counts), max_size=3))
        ),
    )


@settings(max_examples=60)
@given(manifests())
def test_a_manifest_comes_back_as_it_was(manifest):
    text = manifest_to_toml(manifest)
    assert manifest_from_toml(text, "here") == manifest
    written = tomllib.loads(text)["footprint"]
    footprint = manifest.footprint
    for name in ("registers", "spill_bytes", "static_shared_bytes", "stack_bytes", "pinned_block"):
        assert written.get(name) == getattr(footprint, name)
        assert (name in written) == (getattr(footprint, name) is not None)


GOOD = manifest_to_toml(
    Manifest("f.a", "native", "00", "cc 1", "entry", KernelFacts(stack_bytes=64))
)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("schema = 2", "schema = 3"),
        ("schema = 2", ""),
        ('target = "native"', ""),
        ("stack_bytes = 64", "stack_bytes = 'x'"),
        ("stack_bytes = 64", "stack_bites = 64"),
        ("[footprint]", "footprint = 3\n[foot]"),
        ("buffers = []", "buffers = 3"),
        ("buffers = []", "buffers = [{name = 'x'}]"),
        ("operations = []", "operations = [3]"),
        ("operations = []", "operations = [{instruction = 'x', tear = 1}]"),
        (GOOD, ""),
        (GOOD, "\0"),
        ("schema = 2", "schema = = 1"),
        ("schema = 2", f"schema = {'[' * 100_000}"),
    ],
)
def test_what_is_no_manifest_is_refused_with_its_place(old, new):
    assert old in GOOD
    with pytest.raises(XpuBuildError, match="somewhere"):
        manifest_from_toml(GOOD.replace(old, new), "somewhere")


BUFFER = "buffers = [{name = 'x', mode = 'read', is_derived = true}]"
OPERATION = "operations = [{instruction = 'dp4a', tier = 'native', places = 3}]"
SITE = "launch_sites = [{where = 'a.py:1', threads = 64}]"
WHOLE = (
    GOOD.replace("buffers = []", BUFFER)
    .replace("operations = []", OPERATION)
    .replace("launch_sites = []", f"{SITE}\nmax_threads = 128")
)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('kernel = "f.a"', "kernel = 7", "kernel is a text, not 7"),
        ('kernel = "f.a"', "", "it has no field 'kernel'"),
        ('target = "native"', "target = 7", "target is a text, not 7"),
        ('code_hash = "00"', "code_hash = []", r"code_hash is a text, not \[\]"),
        ('compiler = "cc 1"', "compiler = false", "compiler is a text, not False"),
        ('entry = "entry"', "entry = 1.5", r"entry is a text, not 1\.5"),
        ("max_threads = 128", "max_threads = 'abc'", "max_threads is a whole number, .*not 'abc'"),
        ("max_threads = 128", "max_threads = true", "max_threads is a whole number, .*not True"),
        ("max_threads = 128", "max_threads = -1", "max_threads is a whole number, 0 or more"),
        ("name = 'x'", "name = 7", "buffers: name is a text, not 7"),
        (
            "mode = 'read'",
            "mode = 'zebra'",
            "buffers: mode is one of read, write, update, unused, not 'zebra'",
        ),
        ("mode = 'read'", "mode = ['read']", r"buffers: mode is one of .*not \['read'\]"),
        ("is_derived = true", "is_derived = 1", "buffers: is_derived is true or false, not 1"),
        ("instruction = 'dp4a'", "instruction = 1", "operations: instruction is a text, not 1"),
        ("tier = 'native'", "tier = 5", "operations: tier is one of native, software, demoted"),
        ("places = 3", "places = 3.0", r"operations: places is a whole number, .*not 3\.0"),
        ("where = 'a.py:1'", "where = 1", "launch_sites: where is a text, not 1"),
        ("threads = 64", "threads = '64'", "launch_sites: threads is a whole number"),
        (BUFFER, "buffers = 'abc'", "buffers is a list of tables, not 'abc'"),
        (BUFFER, "buffers = ['abc']", "buffers: found 'abc', which is no table"),
        (BUFFER, "buffers = [{name = 'x'}]", "buffers: found fields name; needed: name, mode;"),
        (
            "stack_bytes = 64",
            "stack_bites = 6",
            "footprint: found fields stack_bites; needed: none",
        ),
        (
            "stack_bytes = 64",
            "spill_bytes = -4",
            "footprint: spill_bytes is a whole number, 0 or more, or absent, not -4",
        ),
        ("stack_bytes = 64", "registers = -1", "footprint: registers is a whole number, 0 or"),
        ("max_threads = 128", "most_threads = 128", "found fields .*most_threads.*; allowed: ker"),
        ("stack_bytes = 64", "stack_bytes = 'x'", "footprint: a fact is a whole number or absent"),
    ],
)
def test_what_a_field_may_hold_is_said(old, new, told):
    assert manifest_from_toml(WHOLE, "somewhere").max_threads == 128
    assert WHOLE.count(old) == 1
    with pytest.raises(XpuBuildError, match=f"^somewhere: not a manifest: {told}"):
        manifest_from_toml(WHOLE.replace(old, new), "somewhere")
