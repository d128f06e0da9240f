"""Take the report's two JavaScript libraries from their packages, in the versions of vendor/package-lock.json
(`make vendor`; needs npm). What comes is committed: a build needs neither npm nor the network.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from hashlib import sha256
from pathlib import Path

HERE = Path(__file__).parent
TARGET = HERE.parent / "oomdoctor" / "report" / "assets" / "vendor"
FILES = {
    "uplot": ("dist/uPlot.iife.min.js", "dist/uPlot.min.css", "LICENSE"),
    "d3-hierarchy": ("dist/d3-hierarchy.min.js", "LICENSE"),
}


def main() -> None:
    """Install into a temporary folder exactly what the lock names, and copy the files that the report embeds."""
    TARGET.mkdir(parents=True, exist_ok=True)
    versions = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file in ("package.json", "package-lock.json"):
            shutil.copy(HERE / "vendor" / file, folder)
        subprocess.run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], cwd=folder, check=True)
        for package, files in FILES.items():
            source = folder / "node_modules" / package
            version = json.loads((source / "package.json").read_text())["version"]
            copied = {}
            for file in files:
                base = Path(file).name
                target = TARGET / (f"{package}.{base}" if base == "LICENSE" else base)
                shutil.copyfile(source / file, target)
                copied[target.name] = sha256(target.read_bytes()).hexdigest()
            versions[package] = {"version": version, "sha256": copied}
    (TARGET / "versions.json").write_text(json.dumps(versions, indent=2) + "\n")


if __name__ == "__main__":
    main()
