"""Against the `gguf` package, which writes the files and reads them independently."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import gguf
import numpy as np
import pytest

from xpu_source_gguf.source import GgufSource
from xpu_source_gguf.types import KNOWN, tensor_type

rng = np.random.default_rng()
QUANTISED = ["Q4_0", "Q4_1", "Q5_0", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_XS"]


def write_model(path: Path, *, alignment: int | None = None, tokens: int = 50) -> None:
    writer = gguf.GGUFWriter(path, "test", use_temp_file=False)
    if alignment is not None:
        writer.add_custom_alignment(alignment)
    writer.add_name("héllo")
    writer.add_bool("test.flag", True)
    writer.add_float64("test.double", 1.5)
    writer.add_int8("test.small", -3)
    writer.add_array("test.nested", [[1, 2], [3]])
    writer.add_array("test.floats", rng.random(7).tolist())
    writer.add_token_list([f"tökén{i}" * int(rng.integers(0, 4)) for i in range(tokens)])
    for index, name in enumerate(QUANTISED):
        kind = gguf.GGMLQuantizationType[name]
        _, size = gguf.GGML_QUANT_SIZES[kind]
        n, blocks = int(rng.integers(1, 40)), int(rng.integers(1, 5))
        rows = rng.integers(0, 256, (n, blocks * size), dtype=np.uint8)
        writer.add_tensor(f"blk.{index}.weight", rows, raw_dtype=kind)
        writer.add_tensor(f"blk.{index}.bias", rng.random(n, dtype=np.float32))
    writer.add_tensor("wide", rng.random((3, 5), dtype=np.float32).astype(np.float16))
    writer.add_tensor("cube", rng.random((2, 3, 4), dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@pytest.mark.parametrize("alignment", [None, 64, 256])
def test_names_shapes_and_rows_are_the_packages_own(tmp_path: Path, alignment: int | None) -> None:
    path = tmp_path / "model.gguf"
    write_model(path, alignment=alignment)
    theirs = {tensor.name: tensor for tensor in gguf.GGUFReader(path).tensors}
    flat = [name for name, tensor in theirs.items() if len(tensor.shape) == 2]
    model = GgufSource().open(path)

    assert [matrix.name for matrix in model.matrices()] == flat
    assert len(flat) == len(QUANTISED) + 1
    for matrix in model.matrices():
        tensor = theirs[matrix.name]
        assert (matrix.k, matrix.n) == tuple(tensor.shape)
        assert matrix.constants == {"format": tensor.tensor_type.name.lower()}
        expected = np.ascontiguousarray(tensor.data).view(np.uint8).reshape(matrix.n, -1)
        np.testing.assert_array_equal(model.rows(matrix), expected)


def test_every_type_the_package_knows_has_its_name_and_size() -> None:
    for kind, sizes in gguf.GGML_QUANT_SIZES.items():
        ours = tensor_type(int(kind))
        if ours.name == f"type_{int(kind)}":
            continue  # a later release of the package than ours
        assert ours.name == kind.name.lower()
        if ours.name != "q8_1":
            assert (ours.block_elements, ours.block_bytes) == sizes
    assert len(KNOWN) >= 32


def test_rows_are_read_only_and_outlive_the_model(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    write_model(path)
    model = GgufSource().open(path)
    matrix = model.matrices()[0]
    rows = model.rows(matrix)
    before = rows.copy()
    with pytest.raises(ValueError, match="read-only"):
        rows[0, 0] = 1
    model.close()
    model.close()
    np.testing.assert_array_equal(rows, before)


def test_a_vocabulary_is_passed_over_and_not_taken_in(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    write_model(path, tokens=100_000)
    tracemalloc.start()
    model = GgufSource().open(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(model.matrices()) == len(QUANTISED) + 1
    assert peak < 2**20  # the texts themselves are more
