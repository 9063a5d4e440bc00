"""The module promises to work without the GIL, so it may hold no state that changes and is shared.

Usage: python tests/check_globals.py UNSTRIPPED_LIBRARY. Reads the symbols of the data sections, so it needs nm.
"""

from __future__ import annotations

import re
import subprocess
import sys

# Set once, or guarded: the mark of a forked child, the container's quota, the pool of threads, a table of names, and constant
# words of messages, which are relocated when the library is loaded.
ALLOWED = re.compile(
    r"::\(anonymous namespace\)::(forked_child|quota_cpus\(\)::known|team_limit\(\)::limit|Pool::instance\(\)::pool)"
    r"|::loss_kind\(.*\)::kinds"
    r"|::python::\(anonymous namespace\)::k(Losses|Gradient|VjpLosses|Pullback)$"
)
OURS = re.compile(r"(guard variable for )?leeward::")
WRITABLE = re.compile(r"\.(data|bss|data\.rel\.ro)")


def shared_state(symbols: str) -> list[str]:
    """Return the package's writable variables with static storage that are not allowed; a thread's own are."""
    found = []
    for line in symbols.splitlines():
        columns = [column.strip() for column in line.split("|")]  # name, value, class, type, size, line, section
        if len(columns) == 7 and OURS.match(columns[0]) and columns[3] != "TLS" and WRITABLE.match(columns[6]):
            found.append(columns[0])
    return [name for name in found if not ALLOWED.search(name)]


def main(library: str) -> int:
    symbols = subprocess.run(
        ["nm", "--demangle", "--format=sysv", library], check=True, capture_output=True, text=True
    ).stdout
    found = shared_state(symbols)
    print(f"{len(found)} shared variables")
    print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
