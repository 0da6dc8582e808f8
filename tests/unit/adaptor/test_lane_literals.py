"""Literal lane counts: what assumes a width is found, and groups within any wave are not."""

from __future__ import annotations

import pytest

from xpu.adaptor.lane_literals import literal_lanes
from xpu.testing.shipped import shipped_units


@pytest.mark.parametrize(
    "code",
    [
        "int first = xpu::wave() * 32;",
        "int first = 64u * wave();",
        "int first = xpu::wave() << 5;",
        "if (xpu::lane() == 31) y[0] = 1;",
        "if (63 == lane()) y[0] = 1;",
        "if (xpu::lane() < 32 && n) y[0] = 1;",
        "bool high = xpu::lane() >= 32u;",
        "sum += xpu::shuffle_xor(sum, 32);",
        "v = xpu::shuffle(v + 1, 63);",
        "v = shuffle_down(f(v, 2), 48);",
        "constexpr int WARP_SIZE = 32;",
        "const int wave_width = 64, other = 2;",
        "#define WAVE 32\n",
        "#define WARP_SIZE (32)\n",
        "enum { LANES_PER = 1, kWarp_Size = 32 };",
    ],
)
def test_a_number_that_stands_for_the_width_is_found(code):
    found = literal_lanes(f"/* 1 */\n\n{code}\n", {})
    assert found.startswith("the source, line 3: ")
    assert found.rpartition(": ")[2] in code


@pytest.mark.parametrize(
    "code",
    [
        "int team = xpu::thread() / 32, at = xpu::thread() % 32;",
        "int at = xpu::lane() % 32; bool last = xpu::lane() % 32 == 31;",
        "top = team_max<32>(top); s = xpu::group_sum<32>(s);",
        "v = xpu::shuffle_xor(v, 16); v = xpu::shuffle(v, xpu::lane() & 31);",
        "constexpr int TEAM = 32, WAVES = XPU_THREADS / XPU_WAVE;",
        "int first = xpu::wave() * xpu::wave_width + xpu::lane();",
        "int row = xpu::wave() * 16 + xpu::lane() / 4 * 64;",
        "if (xpu::lane() == 0 || xpu::lane() < XPU_WAVE) y[xpu::wave() * 320] = 32;",
        '// xpu::wave() * 32\n/* lane() == 31 */ const char *s = "lane() == 31";',
        "float waves = 32; int wave_rows = 64; int shared_waves = 32, wave = 32;",
        "y[0] = xpu::shuffle(v, 3) * 32;",
    ],
)
def test_groups_and_other_numbers_are_not(code):
    assert literal_lanes(code, {}) == ""


def test_a_file_that_is_included_is_looked_at_and_no_other():
    wrong = "int f() {\n    return xpu::wave() * 32;\n}"
    includes = {"a.h": '#include "b.h"\n#include "a.h"', "b.h": wrong, "c.h": wrong}
    assert literal_lanes('#include "a.h"', includes).startswith("b.h, line 2: ")
    assert literal_lanes('#include "d.h"', includes) == ""


def test_no_shipped_source_has_any():
    found = {unit.kernel: literal_lanes(unit.text, unit.includes) for unit in shipped_units("simt")}
    assert len(found) > 100
    assert not {kernel: said for kernel, said in found.items() if said}
