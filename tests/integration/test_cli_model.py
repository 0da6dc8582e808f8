"""``xpu probe run --model``: problems and weights from a GGUF file, on real kernels."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import first_party
import numpy as np
import pytest
import tomli_w

from xpu.cli.app import run

gguf = pytest.importorskip("gguf")

KEPT = ("plain", "two_row")
BLOCK_BYTES = {"Q4_K": 144, "Q6_K": 210, "Q8_0": 34}
SCALES = {"Q4_K": (0, 2), "Q6_K": (208,)}


def _rows(kind: str, n: int, blocks: int) -> np.ndarray:
    """Random blocks whose scales are finite, (n, bytes per row)."""
    rng = np.random.default_rng()
    raw = rng.integers(0, 256, (n, blocks, BLOCK_BYTES[kind]), dtype=np.uint8)
    for at in SCALES.get(kind, ()):
        scales = rng.uniform(1e-3, 1e-2, (n, blocks, 1)).astype(np.float16)
        raw[:, :, at : at + 2] = scales.view(np.uint8)
    return raw.reshape(n, -1)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A file of two 4-bit matrices of one shape, a 6-bit one, and what no family serves."""
    path = tmp_path / "tiny model.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    kinds = gguf.GGMLQuantizationType
    writer.add_tensor("first", _rows("Q4_K", 48, 2), raw_dtype=kinds.Q4_K)
    writer.add_tensor("twin", _rows("Q4_K", 48, 2), raw_dtype=kinds.Q4_K)
    writer.add_tensor("six", _rows("Q6_K", 32, 1), raw_dtype=kinds.Q6_K)
    writer.add_tensor("eight", _rows("Q8_0", 16, 4), raw_dtype=kinds.Q8_0)
    writer.add_tensor("norm", np.ones(48, np.float32))
    for write in ("header", "kv_data"):
        getattr(writer, f"write_{write}_to_file")()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.fixture(autouse=True)
def _surroundings(root: Path, tmp_path: Path, monkeypatch, quiet_machine) -> None:
    registry = first_party.registry("cpu", "kquant", "matvec_variant", "gguf")
    family = tomllib.loads((root / "config/families.toml").read_text("utf-8"))["families"][
        "q4k_matvec"
    ]
    family["members"] = [one for one in family["members"] if one["name"] in KEPT]
    family["default"] = {"c": KEPT[0]}
    plan = {"families": ["q4k_matvec"], "problems": ["1x64x256"]}
    config = tmp_path / "config"
    config.mkdir()
    (config / "families.toml").write_text(tomli_w.dumps({"families": {"q4k_matvec": family}}))
    (config / "probes.toml").write_text(tomli_w.dumps({"probes": {"matvec_variant": plan}}))
    monkeypatch.setenv("XPU_CONFIG_DIR", str(config))
    monkeypatch.setenv("XPU_STORE", str(tmp_path / "store"))
    monkeypatch.setattr("xpu.registry.default_registry", lambda: registry)
    monkeypatch.setattr("xpu.orchestrator.orchestrator.default_registry", lambda: registry)


def test_a_models_matrices_are_the_problems_and_the_rest_is_left_out(model, capsys) -> None:
    command = ["probe", "run", "--model", str(model), "--batch", "1,4"]
    assert run([*command, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    # This probe decodes: of the batches it looks at the one of one row.
    [result] = answer["results"]
    assert (result["family"], result["problem"], result["source"]) == (
        "q4k_matvec",
        "1x48x512",
        "timed",
    )
    assert {one["status"] for one in result["members"]} <= {"survivor", "left"}
    assert answer["left_out"] == {"q6_k": 1, "q8_0": 1}
    assert run(command) == 0
    out = capsys.readouterr().out
    assert "stored" in out
    assert "left out, no family for: q6_k (1), q8_0 (1)" in out


def test_a_file_cut_anywhere_is_one_message(model, capsys, tmp_path: Path) -> None:
    whole = model.read_bytes()
    cut = tmp_path / "cut.gguf"
    for length in (4, 23, len(whole) // 3, len(whole) // 2, len(whole) - 1):
        cut.write_bytes(whole[:length])
        assert run(["probe", "run", "--model", str(cut), "--json"]) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert err.startswith(f"xpu: {cut}")
        assert err.count("\n") == 1


def test_a_file_of_another_kind_names_the_readers(capsys, tmp_path: Path) -> None:
    (tmp_path / "other.bin").write_bytes(b"GGML" + bytes(100))
    assert run(["probe", "run", "--model", str(tmp_path / "other.bin")]) == 2
    assert "no reader understands it; readers: gguf" in capsys.readouterr().err
