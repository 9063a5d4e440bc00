"""What a repaired wheel must look like: size, tag, contents and the libraries it brings along.

Usage: python tests/check_wheel.py WHEEL
"""

from __future__ import annotations

import re
import sys
import zipfile
from pathlib import Path

MAX_BYTES = 6_000_000
OLDEST_GLIBC = (2, 28)
MAY_BRING = re.compile(r"^leeward\.libs/libgomp-[0-9a-f]+\.so[.\d]*$")
MUST_HOLD = ("leeward/py.typed", "leeward/_core.pyi", "leeward/__init__.py")


def complaints(wheel: Path) -> list[str]:
    """Return one sentence for each thing that is wrong with the wheel."""
    found = []
    if wheel.stat().st_size >= MAX_BYTES:
        found.append(f"{wheel.stat().st_size} bytes are more than {MAX_BYTES}")
    if sys.platform == "linux":
        glibc = re.findall(r"manylinux_(\d+)_(\d+)", wheel.name)
        if not glibc or min((int(a), int(b)) for a, b in glibc) < OLDEST_GLIBC:
            found.append(f"{wheel.name} is not a manylinux_2_28 or newer wheel")
    names = [name for name in zipfile.ZipFile(wheel).namelist() if not name.endswith("/")]
    found += [f"{name} is missing" for name in MUST_HOLD if name not in names]
    found += [f"{name} should not be brought along" for name in names if ".libs/" in name and not MAY_BRING.match(name)]
    roots = {name.split("/")[0] for name in names}
    found += [
        f"{root} should not be in a wheel"
        for root in sorted(roots)
        if root not in ("leeward", "leeward.libs") and not re.fullmatch(r"leeward-.*\.dist-info", root)
    ]
    return found


def main(path: str) -> int:
    wheel = Path(path)
    found = complaints(wheel)
    print(f"{wheel.name}: {wheel.stat().st_size} bytes")
    print("\n".join(name for name in zipfile.ZipFile(wheel).namelist() if ".libs/" in name or name.endswith(".so")))
    print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
