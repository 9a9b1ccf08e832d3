"""A reader that knows protocol 2 and nothing newer, written from the first specification alone: no
package of ours.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

KNOWN_VERSION = 2


def actions_of(text: str) -> list[dict[str, Any]]:
    """A version file: one JSON object per line."""
    return [json.loads(line) for line in text.splitlines() if line]


class OldestReader:
    """The protocol, the schema, the partition columns and the live files of a table."""

    def __init__(self, table: Path) -> None:
        log = table / "_transaction_log"
        self.protocol: dict[str, Any] = {"minReaderVersion": 1}
        self.metadata: dict[str, Any] = {}
        self.files: dict[str, dict[str, Any]] = {}
        base = -1
        if (log / "_last_checkpoint").exists():
            base = json.loads((log / "_last_checkpoint").read_text())["version"]
            checkpoint = json.loads((log / f"{base:020d}.checkpoint.json").read_text())
            self.protocol, self.metadata = checkpoint["protocol"], checkpoint["metaData"]
            self.files = {add["path"]: add for add in checkpoint["add"]}
        versions = sorted(int(file.stem) for file in log.glob("*.json") if file.stem.isdigit())
        for version in (v for v in versions if v > base):
            for action in actions_of((log / f"{version:020d}.json").read_text()):
                self.protocol = action.get("protocol", self.protocol)
                self.metadata = action.get("metaData", self.metadata)
                if "add" in action:
                    self.files[action["add"]["path"]] = action["add"]
                if "remove" in action:
                    self.files.pop(action["remove"]["path"], None)
        if self.protocol["minReaderVersion"] > KNOWN_VERSION:
            raise ValueError(
                f"the table needs readers of version {self.protocol['minReaderVersion']}"
            )
        self.columns = [
            field["name"] for field in json.loads(self.metadata["schemaString"])["fields"]
        ]
