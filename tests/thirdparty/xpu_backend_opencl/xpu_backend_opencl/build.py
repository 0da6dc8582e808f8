"""The child that compiles one kernel: ``python -m xpu_backend_opencl.build`` in its directory.

Reads ``job.json`` and ``kernel.cl``; writes ``answer.json`` and ``code``. Nothing imports it.
"""

from __future__ import annotations

import json
import math
import warnings
from pathlib import Path
from typing import Any

import pyopencl as cl

from xpu_backend_opencl.compiler import shown
from xpu_backend_opencl.driver import devices


def _answer(job: dict[str, Any]) -> dict[str, Any]:
    device = devices()[0]
    program = cl.Program(cl.Context([device]), Path("kernel.cl").read_text("utf-8"))
    try:
        with warnings.catch_warnings(action="ignore"):
            program.build(job["options"])
        kernel = cl.Kernel(program, job["entry"])
    except cl.Error as error:
        return {"error": shown(str(error))}
    binaries: Any = program.get_info(cl.program_info.BINARIES)
    Path("code").write_bytes(binaries[0])
    asked: Any = cl.kernel_work_group_info
    return {
        "local_bytes": kernel.get_work_group_info(asked.LOCAL_MEM_SIZE, device),
        "work_group": math.prod(kernel.get_work_group_info(asked.COMPILE_WORK_GROUP_SIZE, device)),
    }


if __name__ == "__main__":
    answer = _answer(json.loads(Path("job.json").read_text("utf-8")))
    Path("answer.json").write_text(json.dumps(answer), "utf-8")
