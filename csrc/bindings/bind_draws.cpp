// The draws of a stream as arrays. seed, purpose and step name the stream; a call gives draws first, ..., first + count - 1.
#include <pybind11/stl.h>

#include <array>
#include <vector>

#include "call.hpp"
#include "leeward/core/moments.hpp"
#include "leeward/core/sampler.hpp"
#include "py_monitor.hpp"

namespace leeward::python {
namespace {

struct Draws {};  // a namespace in the stub

constexpr std::int64_t kMaxDraws = static_cast<std::int64_t>(Stream::kMaxWords);

void require(bool holds, const char* message, std::int64_t got) {
  if (!holds) throw py::value_error(std::string(message) + ", got " + std::to_string(got));
}

// Draws of one call: `fill(stream, first, count, out)` runs without the GIL.
template <class T, class Fill>
py::array_t<T> drawn(std::uint64_t seed, std::int64_t purpose, std::uint64_t step, std::int64_t count, std::int64_t first,
                     const Fill& fill) {
  require(purpose >= 0 && purpose < 65536, "purpose must be in [0, 65536)", purpose);
  require(count >= 0, "count must be at least 0", count);
  require(first >= 0 && first <= kMaxDraws - count, "first must be at least 0 and first + count at most 2**41", first);
  py::array_t<T> out(count);
  T* to = out.mutable_data();
  const Stream stream(seed, static_cast<Purpose>(purpose), step);
  const py::gil_scoped_release release;
  fill(stream, first, count, to);
  return out;
}

template <class T, class Draw>
auto one_by_one(const Draw& draw) {
  return [draw](const Stream& stream, std::int64_t first, std::int64_t count, T* out) {
    for (std::int64_t k = 0; k < count; ++k) out[k] = draw(stream, static_cast<std::uint64_t>(first + k));
  };
}

template <class T>
void bind_plain(py::class_<Draws>& m, const char* name, void (*fill)(const Stream&, std::uint64_t, std::int64_t, T*), const char* doc) {
  m.def_static(
      name,
      [fill](std::uint64_t seed, std::int64_t purpose, std::uint64_t step, std::int64_t count, std::int64_t first) {
        return drawn<T>(seed, purpose, step, count, first, [fill](const Stream& s, std::int64_t f, std::int64_t n, T* out) {
          fill(s, static_cast<std::uint64_t>(f), n, out);
        });
      },
      py::arg("seed"), py::arg("purpose"), py::arg("step"), py::arg("count"), py::arg("first") = 0, doc);
}

py::array_t<std::int64_t> below(std::uint64_t seed, std::int64_t purpose, std::uint64_t step, std::int64_t n,
                                std::int64_t count, std::int64_t first) {
  require(n >= 1, "n must be at least 1", n);
  return drawn<std::int64_t>(seed, purpose, step, count, first,
                             [n](const Stream& s, std::int64_t f, std::int64_t m, std::int64_t* out) {
                               sample_with_replacement(s, n, f, m, out);
                             });
}

// out[k, j] = draw first + j of the stream of sample number index[k], uniform in (0, 1) or standard normal.
void of_samples(std::uint64_t seed, const Integers& index, std::int64_t first, bool normal, Doubles& out) {
  if (out.ndim() != 2 || out.shape(0) != index.size()) throw py::value_error("out must have one row a sample number");
  require(first >= 0 && first <= kMaxDraws - out.shape(1), "first must be at least 0 and first + count at most 2**41", first);
  const std::int64_t rows = out.shape(0), count = out.shape(1);
  const std::int64_t* const i = index.data();
  double* const to = out.mutable_data();
  const py::gil_scoped_release release;
  for (std::int64_t k = 0; k < rows; ++k) {
    const Stream stream(seed, Purpose::noise, static_cast<std::uint64_t>(i[k]));
    (normal ? fill_normal : fill_open_uniform)(stream, static_cast<std::uint64_t>(first), count, to + k * count);
  }
}

py::array_t<std::int64_t> permutation(std::uint64_t seed, std::int64_t purpose, std::uint64_t step, std::int64_t n,
                                      std::int64_t count, std::int64_t first) {
  require(n >= 1, "n must be at least 1", n);
  require(count >= 0 && first >= 0 && first <= n - count, "first must be at least 0 and first + count at most n", first);
  return drawn<std::int64_t>(seed, purpose, step, count, first,
                             [n](const Stream& s, std::int64_t f, std::int64_t m, std::int64_t* out) {
                               sample_without_replacement(s, n, f, m, out);
                             });
}

py::array_t<std::int64_t> weighted(std::uint64_t seed, std::int64_t purpose, std::uint64_t step, const Doubles& weights,
                                   std::int64_t count, std::int64_t first) {
  require(weights.size() >= 1, "weights must hold at least 1 number", weights.size());
  const AliasTable table(weights.data(), weights.size());
  return drawn<std::int64_t>(seed, purpose, step, count, first,
                             [&table](const Stream& s, std::int64_t f, std::int64_t m, std::int64_t* out) {
                               table.sample(s, f, m, out);
                             });
}

py::array_t<std::int64_t> geometric(std::uint64_t seed, std::int64_t purpose, std::uint64_t step, double mean,
                                    std::int64_t count, std::int64_t first) {
  if (!(mean >= 0.0 && mean <= 0x1p40)) throw py::value_error("mean must be in [0, 2**40], got " + std::to_string(mean));
  const double log_gamma = hd::log_gamma_of_mean(mean);
  return drawn<std::int64_t>(seed, purpose, step, count, first,
                             one_by_one<std::int64_t>([log_gamma](const Stream& s, std::uint64_t i) {
                               return hd::geometric(s.word(i), log_gamma);
                             }));
}

py::array_t<std::int64_t> level(std::uint64_t seed, std::int64_t purpose, std::uint64_t step, std::int64_t j_max,
                                std::int64_t count, std::int64_t first) {
  require(j_max >= 1 && j_max <= 65, "j_max must be in [1, 65]", j_max);
  return drawn<std::int64_t>(seed, purpose, step, count, first,
                             one_by_one<std::int64_t>([j_max](const Stream& s, std::uint64_t i) {
                               return static_cast<std::int64_t>(s.level(i, static_cast<int>(j_max)));
                             }));
}

std::array<double, 4> moments(std::uint64_t seed, std::int64_t purpose, std::uint64_t step, std::int64_t count) {
  require(purpose >= 0 && purpose < 65536, "purpose must be in [0, 65536)", purpose);
  require(count >= 1 && count <= kMaxDraws, "count must be in [1, 2**41]", count);
  PyMonitor monitor;
  const py::gil_scoped_release release;
  const Moments z = normal_moments(Stream(seed, static_cast<Purpose>(purpose), step), count, &monitor);
  return {z.first, z.second, z.third, z.fourth};
}

std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key) {
  const hd::PhiloxBlock b = hd::philox({counter[0], counter[1], counter[2], counter[3]}, {key[0], key[1]});
  return {static_cast<std::uint32_t>(b.x0), static_cast<std::uint32_t>(b.x1), static_cast<std::uint32_t>(b.x2),
          static_cast<std::uint32_t>(b.x3)};
}

}  // namespace

void bind_draws(py::module_& module) {
  py::class_<Draws> m(module, "draws", "Draws of the stream named by (seed, purpose, step).");
  const auto seed = py::arg("seed"), purpose = py::arg("purpose"), step = py::arg("step"), count = py::arg("count");
  const auto first = py::arg("first") = 0;
  m.def_static("philox", &philox, py::arg("counter"), py::arg("key"), "One Philox 4x32-10 block.");
  bind_plain(m, "words", &fill_words, "Random 64-bit words.");
  bind_plain(m, "uniform", &fill_uniform, "Uniforms in [0, 1).");
  bind_plain(m, "open_uniform", &fill_open_uniform, "Uniforms in (0, 1).");
  bind_plain(m, "normal", &fill_normal, "Standard normals.");
  m.def_static("below", &below, seed, purpose, step, py::arg("n"), count, first, "Uniform integers in [0, n).");
  m.def_static("permutation", &permutation, seed, purpose, step, py::arg("n"), count, first,
        "Elements first, ..., first + count - 1 of the stream's permutation of [0, n).");
  m.def_static("weighted", &weighted, seed, purpose, step, py::arg("weights").noconvert(), count, first,
        "Integers with probabilities in proportion to the weights.");
  m.def_static("geometric", &geometric, seed, purpose, step, py::arg("mean"), count, first, "Geometric from 0 with this mean.");
  m.def_static("level", &level, seed, purpose, step, py::arg("j_max"), count, first,
        "J with P(J = j) = 2^-j for j < j_max and P(J = j_max) = 2^-(j_max - 1).");
  m.def_static("of_samples", &of_samples, seed, py::arg("index"), py::arg("first"), py::arg("normal"),
        py::arg("out").noconvert(), "Draws first, ..., first + count - 1 of each sample number, one row a number.");
  m.def_static("normal_moments", &moments, seed, purpose, step, count, "Means of z, z^2, z^3 and z^4 of the first draws.");
}

}  // namespace leeward::python
