#!/usr/bin/env bash
# Builds `fingerprint` for the SIMD levels x86-64 v1, v3 and v4, with clones chosen at run time, and on OpenMP, and
# compares what they print. A level this CPU lacks is left out, and named.
set -euo pipefail
root="$(cd "$(dirname "$0")/../.." && pwd)"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT

[ "$(uname -m)" = x86_64 ] || { echo "not an x86-64 machine: nothing to compare"; exit 0; }

has() { grep -qw "$1" /proc/cpuinfo 2>/dev/null; }
build_and_run() { # name, cmake options
  local name="$1"
  shift
  cmake -S "$root" -B "$work/$name" -DLEEWARD_PYTHON=OFF -DLEEWARD_TESTS=ON -DCMAKE_BUILD_TYPE=Release "$@" >/dev/null
  cmake --build "$work/$name" --target fingerprint --parallel 2 >/dev/null
  "$(find "$work/$name" -name fingerprint -type f)" >"$work/$name.txt"
  echo "$name: $(sha256sum <"$work/$name.txt" | cut -c1-16)"
}

build_and_run v1 -DLEEWARD_SIMD=v1
if has avx2 && has bmi2 && has fma; then build_and_run v3 -DLEEWARD_SIMD=v3; else echo "v3: left out, this CPU lacks AVX2"; fi
if has avx512f && has avx512vl && has avx512dq && has avx512bw; then
  build_and_run v4 -DLEEWARD_SIMD=v4
else
  echo "v4: left out, this CPU lacks AVX-512"
fi
build_and_run dispatch -DLEEWARD_SIMD=dispatch
build_and_run openmp -DLEEWARD_SIMD=dispatch -DLEEWARD_OPENMP=ON

status=0
for other in "$work"/*.txt; do
  diff -u "$work/v1.txt" "$other" || status=1
done
[ "$status" = 0 ] && echo "the same bits in all builds"
exit "$status"
