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
                st.lists(st.tuples(texts, texts, st.booleans()), max_size=3)
            )
        ),
        operations=tuple(
            Operation(*parts)
            for parts in draw(st.lists(st.tuples(texts, texts, counts), max_size=3))
        ),
    )


@settings(deadline=None, max_examples=60)
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
    ],
)
def test_what_is_no_manifest_is_refused_with_its_place(old, new):
    assert old in GOOD
    with pytest.raises(XpuBuildError, match="somewhere"):
        manifest_from_toml(GOOD.replace(old, new), "somewhere")
