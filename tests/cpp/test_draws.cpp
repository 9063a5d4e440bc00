#include <algorithm>
#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "harness.hpp"
#include "leeward/core/moments.hpp"
#include "leeward/core/sampler.hpp"

using namespace leeward;

namespace {

bool is(const hd::PhiloxBlock& b, std::uint32_t x0, std::uint32_t x1, std::uint32_t x2, std::uint32_t x3) {
  return b.x0 == x0 && b.x1 == x1 && b.x2 == x2 && b.x3 == x3;
}

bool is_bijection(const hd::Permutation& p, std::int64_t n) {
  std::vector<char> seen(static_cast<std::size_t>(n), 0);
  for (std::int64_t k = 0; k < n; ++k) {
    const std::uint64_t e = p[static_cast<std::uint64_t>(k)];
    if (e >= static_cast<std::uint64_t>(n) || seen[e]++ != 0) return false;
  }
  return true;
}

}  // namespace

TEST("Philox 4x32-10 gives the published answers") {
  CHECK(is(hd::philox({0, 0, 0, 0}, {0, 0}), 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8));
  const std::uint32_t ones = 0xffffffff;
  CHECK(is(hd::philox({ones, ones, ones, ones}, {ones, ones}), 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd));
  CHECK(is(hd::philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}), 0xd16cfe09, 0x94fdcceb,
           0x5001e420, 0x24126ea1));
}

TEST("arrays of draws hold the draws taken one by one, wherever they begin") {
  const Stream stream(7, Purpose::noise, 11);
  for (const std::uint64_t first : {0ULL, 1ULL, 31ULL, 32ULL, 1000003ULL, (1ULL << 33) - 5})
    for (const std::int64_t n : {0, 1, 2, 31, 32, 33, 200}) {
      const auto size = static_cast<std::size_t>(n);
      std::vector<std::uint64_t> words(size);
      std::vector<double> uniforms(size), open(size), normals(size);
      fill_words(stream, first, n, words.data());
      fill_uniform(stream, first, n, uniforms.data());
      fill_open_uniform(stream, first, n, open.data());
      fill_normal(stream, first, n, normals.data());
      for (std::size_t k = 0; k < size; ++k) {
        CHECK(words[k] == stream.word(first + k));
        CHECK(uniforms[k] == stream.uniform(first + k));
        CHECK(open[k] == stream.open_uniform(first + k));
        CHECK(normals[k] == stream.normal(first + k));
      }
    }
}

TEST("the extreme words stay inside the ranges") {
  const std::uint64_t top = ~std::uint64_t{0};
  CHECK(hd::uniform(0) == 0.0 && hd::uniform(top) < 1.0);
  CHECK(hd::open_uniform(0) > 0.0 && hd::open_uniform(top) < 1.0);
  for (const std::uint64_t radius : {std::uint64_t{0}, top})
    for (const std::uint64_t angle : {std::uint64_t{0}, top, top / 2, top / 4, top / 8}) {
      const hd::NormalPair z = hd::normal_pair(radius, angle);
      CHECK(std::abs(z.first) < 8.6 && std::abs(z.second) < 8.6);
    }
  for (const std::uint64_t n : {std::uint64_t{1}, std::uint64_t{3}, std::uint64_t{1} << 63, top})
    for (const std::uint64_t word : {std::uint64_t{0}, top}) CHECK(hd::below(word, n).value < n);
  CHECK(hd::truncated_level(0, 5) == 5 && hd::truncated_level(top, 5) == 1 && hd::truncated_level(0, 65) == 65);
  CHECK(hd::geometric(0, hd::log_gamma_of_mean(0.0)) == 0);
  CHECK(hd::geometric(0, hd::log_gamma_of_mean(0x1p40)) > 0);
}

TEST("bounded integers reject exactly the words that would favour a value") {
  // For n = 2^63 + 1 the threshold is 2^63 - 1: word w is rejected where the low part of w n is below it.
  const std::uint64_t n = (std::uint64_t{1} << 63) + 1, threshold = (0 - n) % n;
  for (std::uint64_t word = 0; word < 1000; ++word) CHECK(hd::below(word, n).accepted == (word * n >= threshold));
  const Stream stream(3, Purpose::batch, 0);
  std::int64_t upper = 0;
  for (std::uint64_t i = 0; i < 4000; ++i) {
    const std::uint64_t v = stream.below(i, n);
    CHECK(v < n);
    if (v >= n / 2) ++upper;
  }
  CHECK(std::abs(static_cast<double>(upper) - 2000.0) < 4.0 * std::sqrt(1000.0));
}

TEST("the 128-bit product agrees with the compiler's") {
#if defined(__SIZEOF_INT128__)
  __extension__ using Wide = unsigned __int128;
  const Stream stream(1, Purpose::user, 0);
  for (std::uint64_t i = 0; i < 1000; ++i) {
    const std::uint64_t a = stream.word(2 * i), b = stream.word(2 * i + 1);
    const Wide product = static_cast<Wide>(a) * b;
    const hd::WidePair own = hd::multiply_wide(a, b);
    CHECK(own.high == static_cast<std::uint64_t>(product >> 64) && own.low == static_cast<std::uint64_t>(product));
  }
#endif
}

TEST("the permutation is a bijection for every n up to 2000 and for larger ones") {
  for (std::int64_t n = 1; n <= 2000; ++n)
    CHECK(is_bijection(Stream(static_cast<std::uint64_t>(n), Purpose::order, 5).permutation(static_cast<std::uint64_t>(n)), n));
  for (const std::int64_t n : {65535, 65536, 65537, 99991, 1000003})
    CHECK(is_bijection(Stream(9, Purpose::order, 0).permutation(static_cast<std::uint64_t>(n)), n));
}

TEST("samples without replacement are the permutation's elements, also past 2^32") {
  const Stream stream(5, Purpose::order, 2);
  const std::int64_t n = (std::int64_t{1} << 40) + 12345;
  std::vector<std::int64_t> out(100);
  sample_without_replacement(stream, n, n - 100, 100, out.data());
  const hd::Permutation p = stream.permutation(static_cast<std::uint64_t>(n));
  for (std::size_t k = 0; k < 100; ++k) CHECK(out[k] == static_cast<std::int64_t>(p[static_cast<std::uint64_t>(n - 100) + k]));
  std::sort(out.begin(), out.end());
  CHECK(std::adjacent_find(out.begin(), out.end()) == out.end());
  CHECK(out.front() >= 0 && out.back() < n);
}

TEST("samples with replacement are the stream's bounded integers") {
  const Stream stream(5, Purpose::batch, 2);
  std::vector<std::int64_t> out(1000);
  sample_with_replacement(stream, 12345, 77, 1000, out.data());
  for (std::size_t k = 0; k < 1000; ++k) CHECK(out[k] == static_cast<std::int64_t>(stream.below(77 + k, 12345)));
}

TEST("an alias table never draws a weight of zero, and refuses wrong weights") {
  const double weights[] = {0.0, 1e-300, 3.0, 0.0, 0.1, 0.0};
  const AliasTable table(weights, 6);
  std::vector<std::int64_t> out(20000);
  table.sample(Stream(1, Purpose::batch, 0), 0, 20000, out.data());
  for (const std::int64_t i : out) CHECK(i == 1 || i == 2 || i == 4);
  for (const double wrong : {-1.0, std::nan(""), HUGE_VAL, 0.0}) {
    bool thrown = false;
    try {
      const AliasTable refused(&wrong, 1);
    } catch (const std::invalid_argument&) {
      thrown = true;
    }
    CHECK(thrown);
  }
}

TEST("streams of other seeds, purposes and steps are other streams") {
  const std::uint64_t base = Stream(1, Purpose::batch, 2).word(3);
  CHECK(base != Stream(2, Purpose::batch, 2).word(3));
  CHECK(base != Stream(1ULL << 32 | 1, Purpose::batch, 2).word(3));
  CHECK(base != Stream(1, Purpose::order, 2).word(3));
  CHECK(base != Stream(1, Purpose::batch, 1ULL << 32 | 2).word(3));
  CHECK(base != Stream(1, Purpose::batch, 2).word(3, 1));
  CHECK(base == Stream(1, Purpose::batch, 2).word(3));
}

TEST("the moments of a million normals are those of the normal law") {
  const double n = 1e6;
  const Moments z = normal_moments(Stream(0, Purpose::noise, 0), 1000000, nullptr);
  CHECK(std::abs(z.first) < 4.0 / std::sqrt(n));
  CHECK(std::abs(z.second - 1.0) < 4.0 * std::sqrt(2.0 / n));
  CHECK(std::abs(z.third) < 4.0 * std::sqrt(15.0 / n));
  CHECK(std::abs(z.fourth - 3.0) < 4.0 * std::sqrt(96.0 / n));
}
