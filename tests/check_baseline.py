"""A library must run on baseline x86-64: vector instructions past SSE2 stand only in the clones chosen at run time, and in
functions that are called by level and say so in their names.

Usage: python tests/check_baseline.py UNSTRIPPED_LIBRARY. Reads the disassembly, so it needs objdump; on other machines than
x86-64 it says so and passes.
"""

from __future__ import annotations

import platform
import re
import subprocess
import sys

# A VEX- or EVEX-coded instruction has a mnemonic that starts with v or names a wide or mask register.
WIDE = re.compile(
    r"^\s*[0-9a-f]+:\s+(v[a-z0-9]+\s|k(mov|and|or|not|x?or|test|shift)[a-z]*\s|.*%[yz]mm\d|.*%xmm(1[6-9]|2\d|3[01]))"
)
NOT_VECTOR = re.compile(r"^\s*[0-9a-f]+:\s+(verr|verw|vm[a-z]+)\s")
FUNCTION = re.compile(r"^[0-9a-f]+ <(.+)>:$")
CLONE = re.compile(r"\.arch_x86_64_v[34]|_at_avx(2|512)E")


def clones_and_intruders(disassembly: str) -> tuple[int, list[str]]:
    """Return the number of wide clones and the functions outside them that hold wide instructions."""
    name = "?"
    clones: set[str] = set()
    intruders: dict[str, str] = {}
    for line in disassembly.splitlines():
        if header := FUNCTION.match(line):
            name = header.group(1)
            if CLONE.search(name):
                clones.add(name)
        elif not CLONE.search(name) and WIDE.match(line) and not NOT_VECTOR.match(line):
            intruders.setdefault(name, line.strip())
    return len(clones), [f"{function}: {line}" for function, line in intruders.items()]


def main(library: str) -> int:
    if platform.machine() not in ("x86_64", "AMD64"):
        print("not x86-64: nothing to check")
        return 0
    command = ["objdump", "--disassemble", "--demangle=none", "--no-show-raw-insn", library]
    clones, intruders = clones_and_intruders(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    print(f"{clones} functions for AVX2 or AVX-512 only, {len(intruders)} others hold such instructions")
    print("\n".join(intruders))
    return 1 if intruders else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
