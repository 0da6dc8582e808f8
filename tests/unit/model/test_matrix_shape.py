import pytest

from xpu.errors import XpuConfigError
from xpu.model import MATRIX_SUMS, Manifest, MatrixShape, Operation


@pytest.mark.parametrize(("element", "sums"), MATRIX_SUMS.items())
def test_a_shape_is_what_its_text_says(element, sums):
    shape = MatrixShape.from_text(f"{element}->{sums}:8x16x32")
    assert shape == MatrixShape(element, sums, 8, 16, 32)
    assert str(shape) == f"{element}->{sums}:8x16x32"


@pytest.mark.parametrize(
    "text",
    [
        *("", "16x16x16", "m16n16k32_i8", "int8->int32:16x16", "int8->int32:16x16x16 "),
        *("int8->float32:16x16x16", "float64->float64:16x16x16", "int8->int32:0x16x16"),
    ],
)
def test_another_text_is_refused_with_what_is_right(text):
    with pytest.raises(XpuConfigError) as caught:
        MatrixShape.from_text(text)
    assert repr(text) in str(caught.value)
    assert "int8->int32" in str(caught.value)


@pytest.mark.parametrize(
    ("tiers", "tier"),
    [
        ((), None),
        (("native", "native"), "native"),
        (("software",), "software"),
        (("software", "demoted"), "demoted, software"),
    ],
)
def test_a_manifest_says_the_tiers_of_its_matrices(tiers, tier):
    shapes = [f"int8->int32:8x16x{16 * (1 + number)}" for number in range(len(tiers))]
    operations = [Operation(*each) for each in zip(shapes, tiers, strict=True)]
    manifest = Manifest("k", "t", "00", "cc", "e", operations=(Operation("dp4a"), *operations))
    assert manifest.tier == tier
