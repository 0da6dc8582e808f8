"""K-quant tiles with the native matrices of AMD's parts, on the emulator; none ran on the silicon.

The header of the backend ``hip`` stands there in the place of the emulator's own native tier, and
its matrix instructions are functions that take from each lane of the wave what the part would.
"""

from __future__ import annotations

from pathlib import Path

import first_party
import numpy as np
import pytest

from xpu import Orchestrator

SUPPORT = Path(__file__).parents[1] / "support"
M, N, K = 5, 21, 512  # no multiples of a tile
# Bytes by the rows of 8 that take an instruction twice, halves by those of 16.
CASES = (
    ("gfx1151", "q4k_tile", "t32x32"),
    ("gfx1201", "q6k_tile", "h32x32"),
    ("gfx90a", "q4k_tile", "h32x32"),
    ("gfx942", "q6k_tile", "t32x32"),
)


@pytest.fixture
def part(monkeypatch, tmp_path):
    """Let the emulator be a part with the matrix instructions of a target."""
    first_party.plugin("hip")
    import xpu_backend_emulator
    import xpu_backend_hip
    from xpu_backend_emulator import compiler as emulator
    from xpu_backend_hip.matrices import matrix_shapes, matrix_unit
    from xpu_backend_hip.targets import wave_width

    def go(target: str) -> None:
        unit, runtime = matrix_unit(target), Path(xpu_backend_hip.__file__).parent / "runtime"
        assert unit is not None
        headers = dict(emulator._headers())
        for name in ("matrix", "wmma", "mfma"):
            headers[f"xpu_hip_{name}.h"] = (runtime / f"xpu_hip_{name}.h").read_text()
        headers["xpu_emulator_matrix.h"] = "\n".join(
            (
                f"#define {unit.macro} {unit.version}",
                (SUPPORT / "amd_waves.h").read_text(),
                '#include "xpu_hip_matrix.h"\n',
            )
        )
        monkeypatch.setattr(emulator, "_headers", lambda: headers)
        generic = Path(xpu_backend_emulator.__file__).parent / "generic.toml"
        listed = ", ".join(f'"{shape}"' for shape in matrix_shapes(target))
        facts = tmp_path / "facts.toml"
        facts.write_text(f"{generic.read_text()}matrix_shapes = [{listed}]\n")
        monkeypatch.setenv("XPU_EMULATOR_FACTS", str(facts))
        monkeypatch.setenv("XPU_EMULATOR_WAVE", str(wave_width(target)))

    return go


@pytest.mark.parametrize(("target", "family", "member"), CASES)
def test_a_tile_is_right_in_the_layouts_of_a_part(part, monkeypatch, target, family, member):
    part(target)
    registry = first_party.registry("emulator", "kquant")
    from xpu_family_kquant import reference

    rng = np.random.default_rng()
    weight_format = "q4_k" if family == "q4k_tile" else "q6_k"
    blocks = reference.random_blocks(weight_format, N, K, rng)
    x = rng.standard_normal((M, K), dtype=np.float32)
    y = np.full((M, N), np.nan, np.float32)
    monkeypatch.setenv(f"XPU_SHAPE_{family.upper()}", member)
    with Orchestrator(backend="emulator", tuning="off", registry=registry) as one:
        kernel = one.bind(family, m=M, n=N, k=K)
        assert kernel.member == member
        kernel(one.prepare(family, blocks), x, out=y)
    assert np.isfinite(y).all()
    errors = reference.errors(weight_format, blocks, x, y)
    assert np.sqrt(np.mean(errors**2)) <= 2 * reference.ERROR_RMS
    assert errors.max() <= reference.ERROR_MAX
