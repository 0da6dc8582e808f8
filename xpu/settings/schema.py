"""JSON Schemas of the configuration files, so that editors complete and check them.

``python -m xpu.settings.schema DIR`` writes ``families.schema.json`` and its siblings.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from xpu.settings.tables import FILES


def schemas() -> dict[str, dict[str, Any]]:
    """Return the JSON Schema of each file, by the name of the schema's file."""
    return {
        f"{name}.schema.json": {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "title": f"XPU {name}.toml",
            "type": "object",
            "properties": {name: kind.schema()},
            "additionalProperties": False,
        }
        for name, kind in FILES.items()
    }


def write(directory: Path) -> None:
    """Write every schema into a directory, which is made when it is not there."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, schema in schemas().items():
        (directory / name).write_text(json.dumps(schema, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Write the JSON Schemas of the configuration.")
    parser.add_argument("directory", type=Path)
    write(parser.parse_args().directory)
