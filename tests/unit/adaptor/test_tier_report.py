import logging
from pathlib import Path

import attrs

from xpu.adaptor import Built
from xpu.adaptor.tier_report import TierReport
from xpu.errors import XpuBuildError
from xpu.model import Manifest, Operation

WHOLE, HALF = "int8->int32:8x16x32", "float16->float32:16x16x16"


def built(kernel: str, *operations: Operation, target: str = "part") -> Built:
    manifest = Manifest(kernel, target, "00", "cc", "e", operations=operations)
    return Built(manifest, Path("code"), was_cached=False)


def test_each_choice_is_said_once(caplog):
    report = TierReport()
    first = built("f.a", Operation(WHOLE), Operation("mma.sync", places=4))
    with caplog.at_level(logging.INFO, "xpu"):
        report.say([first, XpuBuildError("f.b: no"), attrs.evolve(first, was_cached=True)])
        report.say([built("f.c", Operation(HALF, "software"), Operation(WHOLE))])
        report.say([built("f.d", Operation(WHOLE), target="other")])
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("INFO", f"part: matrices {WHOLE} are native (f.a)"),
        ("INFO", f"part: matrices {HALF} are software (f.c)"),
        ("INFO", f"other: matrices {WHOLE} are native (f.d)"),
    ]


def test_a_demoted_group_is_a_warning(caplog):
    report = TierReport()
    with caplog.at_level(logging.WARNING, "xpu"):
        for _ in range(2):
            report.say([built("f.a", Operation(HALF, "demoted"), Operation(WHOLE))])
    (record,) = caplog.records
    assert HALF in record.getMessage()
    assert "in software, though the target has them: f.a" in record.getMessage()
