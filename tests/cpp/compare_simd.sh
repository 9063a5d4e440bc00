#!/usr/bin/env bash
# Builds the core and the Python module for the SIMD levels x86-64 v1, v3 and v4, with clones chosen at run time, and on OpenMP, and
# compares what `fingerprint` (kernels) and `fingerprint_fits.py` (whole fits, for 1, 2 and 3 threads) print. A level this
# CPU lacks is left out, and named. Needs the active Python to have pybind11, numpy and scipy; without them only the kernels are
# compared. Usage: bash tests/cpp/compare_simd.sh [LEVEL...]   (v1 v3 v4 dispatch openmp when none is named)
set -euo pipefail
root="$(cd "$(dirname "$0")/../.." && pwd)"
work="$(mktemp -d)"
builds="$root/build/simd-$$"
trap 'rm -rf "$work" "$builds"-*' EXIT
export OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=2

[ "$(uname -m)" = x86_64 ] || { echo "not an x86-64 machine: nothing to compare"; exit 0; }

has() { # every CPU flag named
  local flag
  for flag in "$@"; do grep -qw "$flag" /proc/cpuinfo 2>/dev/null || return 1; done
}
python="$(command -v python || command -v python3)"
fits=OFF
if "$python" -c "import numpy, scipy, pybind11" 2>/dev/null; then fits=ON; else echo "whole fits: left out, no numpy, scipy or pybind11"; fi

build_and_run() { # name, cmake options
  local name="$1" build="$builds-$1" start=$SECONDS
  shift
  local options=(-DLEEWARD_TESTS=ON -DLEEWARD_PYTHON=$fits -DCMAKE_BUILD_TYPE=Release "$@") targets=(fingerprint)
  if [ $fits = ON ]; then
    options+=(-Dpybind11_DIR="$("$python" -c "import pybind11; print(pybind11.get_cmake_dir())")" -DPython_EXECUTABLE="$python")
    targets+=(_core)
  fi
  { cmake -S "$root" -B "$build" "${options[@]}" && cmake --build "$build" --target "${targets[@]}" --parallel 2; } >"$work/log" 2>&1 ||
    { tail -30 "$work/log"; return 1; }
  "$build/tests/cpp/fingerprint" >"$work/$name.txt"
  if [ $fits = ON ]; then
    mkdir "$build/package"
    cp -r "$root/python/leeward" "$build/package/leeward"
    rm -f "$build/package/leeward"/_core*.so
    cp "$build"/_core*.so "$build/package/leeward/"
    # Isolated from the environment's own leeward, and from the redirections of an editable installation.
    "$python" - "$build/package" "$root/tests/fingerprint_fits.py" >>"$work/$name.txt" <<'PYTHON'
import runpy, sys
sys.meta_path[:] = [finder for finder in sys.meta_path if "ScikitBuild" not in type(finder).__name__]
folder, script = sys.argv[1:]
sys.path.insert(0, folder)
import leeward
assert leeward._core.__file__.startswith(folder), leeward._core.__file__
runpy.run_path(script, run_name="__main__")
PYTHON
  fi
  echo "$name: $(wc -l <"$work/$name.txt") lines, $(sha256sum <"$work/$name.txt" | cut -c1-16), $((SECONDS - start)) s"
}

levels=("$@")
[ ${#levels[@]} -gt 0 ] || levels=(v1 v3 v4 dispatch openmp)
for level in "${levels[@]}"; do
  case "$level" in
    v3) has avx2 bmi2 fma || { echo "v3: left out, this CPU lacks AVX2"; continue; } ;;
    v4) has avx512f avx512vl avx512dq avx512bw || { echo "v4: left out, this CPU lacks AVX-512"; continue; } ;;
  esac
  if [ "$level" = openmp ]; then
    build_and_run openmp -DLEEWARD_SIMD=dispatch -DLEEWARD_OPENMP=ON
  else
    build_and_run "$level" "-DLEEWARD_SIMD=$level"
  fi
done

status=0
first=""
for other in "$work"/*.txt; do
  [ -n "$first" ] || first="$other"
  diff -u "$first" "$other" || status=1
done
[ "$status" = 0 ] && echo "the same bits in all builds"
exit "$status"
