// What only C++ can show of the linear oracle: addresses past 2^31 elements, malformed CSR, the memo, and workspaces.
#include <cmath>
#include <cstdint>
#include <vector>

#include "harness.hpp"
#include "leeward/oracle/linear.hpp"

#if defined(__linux__)
#include <sys/mman.h>
#endif

using namespace leeward;

namespace {

struct Small {
  std::vector<double> x{1.0, 2.0, -1.0, 0.5, 3.0, 1.5}, y{1.0, -1.0, 1.0};
  ScoreMemo memo;
  LinearOracle oracle(ScoreMemo* with) const {
    return {make_dense<double>({x.data(), 3, 2, 2}),
            {.loss = {hd::LossKind::squared, 0, 0}, .labels = y.data(), .outputs = 1, .intercept = true, .memo = with}};
  }
};

}  // namespace

#if defined(__linux__)
namespace {

// Zeros that take memory only where they are written; null where the system does not lend so much address space.
template <class T>
struct Lazy {
  T* data;
  std::size_t bytes;
  explicit Lazy(std::int64_t count) : data(nullptr), bytes(static_cast<std::size_t>(count) * sizeof(T)) {
    void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p != MAP_FAILED) data = static_cast<T*>(p);
  }
  ~Lazy() {
    if (data != nullptr) munmap(data, bytes);
  }
  Lazy(const Lazy&) = delete;
  Lazy& operator=(const Lazy&) = delete;
};

}  // namespace

TEST("the last row of a dense matrix of more than 2^31 entries is read where it lies") {
  constexpr std::int64_t n = 46341;  // n * n = 2147488281
  const Lazy<float> x(n * n);
  if (x.data == nullptr) return;
  x.data[n * n - n] = 3.0F;  // (n - 1, 0)
  x.data[n * n - 1] = 5.0F;  // (n - 1, n - 1)
  const auto matrix = make_dense<float>({x.data, n, n, n});
  std::vector<double> w(n, 0.0), out(n, 0.0);
  w.front() = 2.0;
  w.back() = 0.5;
  const std::int64_t last = n - 1;
  double score = 0.0;
  matrix->dots({&last, 0, 1}, w.data(), 1.0, &score, 1);
  CHECK(score == 2.0 * 3.0 + 0.5 * 5.0 + 1.0);
  matrix->dots({nullptr, last, 1}, w.data(), 0.0, &score, 1);
  CHECK(score == 2.0 * 3.0 + 0.5 * 5.0);
  const double r = -2.0;
  matrix->add_rows({&last, 0, 1}, &r, 1, out.data());
  CHECK(out.front() == -6.0 && out.back() == -10.0 && out[1] == 0.0);
  CHECK(matrix->squared_norm(last, nullptr) == 34.0);
  CHECK(matrix->entries() == n * n);
}

TEST("CSR entries past the 2^31st are read where they lie") {
  constexpr std::int64_t start = (std::int64_t{1} << 31) + 5;
  const Lazy<float> data(start + 3);
  const Lazy<std::int32_t> indices(start + 3);
  if (data.data == nullptr || indices.data == nullptr) return;
  for (int e = 0; e < 3; ++e) {
    data.data[start + e] = static_cast<float>(e + 1);
    indices.data[start + e] = 2 * e;
  }
  const std::vector<std::int64_t> indptr{0, start, start + 3};
  const auto matrix = make_csr<float, std::int32_t>({data.data, indices.data, indptr.data(), 2, 5});
  const std::vector<double> w{1.0, 10.0, 100.0, 1000.0, 10000.0};
  std::vector<double> row(5);
  const std::int64_t last = 1;
  double score = 0.0;
  matrix->dots({&last, 0, 1}, w.data(), 0.0, &score, 1);
  CHECK(score == 1.0 + 200.0 + 30000.0);
  matrix->copy_row(last, row.data());
  CHECK(row[0] == 1.0 && row[2] == 2.0 && row[4] == 3.0 && row[1] == 0.0);
}
#endif

TEST("malformed CSR is found before anything is read through it") {
  const std::vector<std::int32_t> indices{0, 2, 1};
  const std::vector<std::int64_t> good{0, 2, 3}, falling{0, 3, 2}, beyond{0, 2, 4}, late{1, 2, 3};
  CHECK(check_csr(indices.data(), good.data(), 2, 3, 3).kind == CsrFault::none);
  CHECK(check_csr(indices.data(), falling.data(), 2, 3, 3).kind == CsrFault::pointer);
  CHECK(check_csr(indices.data(), falling.data(), 2, 3, 3).row == 1);
  CHECK(check_csr(indices.data(), beyond.data(), 2, 3, 3).kind == CsrFault::pointer);
  CHECK(check_csr(indices.data(), late.data(), 2, 3, 3).kind == CsrFault::pointer);
  const CsrFault narrow = check_csr(indices.data(), good.data(), 2, 2, 3);
  CHECK(narrow.kind == CsrFault::column && narrow.row == 0 && narrow.entry == 1);
}

TEST("a memo in use elsewhere is left alone and the answer is the same") {
  Small small;
  const LinearOracle with = small.oracle(&small.memo), without = small.oracle(nullptr);
  const std::vector<double> w{0.5, -0.25, 2.0}, q{1.0, 2.0, 3.0};
  std::vector<double> a(3), b(3), g(3), h(3);
  Workspace workspace;
  Resources use{workspace, 1};
  without.losses(w.data(), {nullptr, 3}, b.data(), use);
  without.gradient(w.data(), {nullptr, 3}, q.data(), h.data(), use);
  {
    const ScoreMemo::Hold taken(&small.memo);
    with.losses(w.data(), {nullptr, 3}, a.data(), use);
    CHECK(a == b);
    CHECK(taken.find(w.data(), 3) == nullptr);
  }
  with.losses(w.data(), {nullptr, 3}, a.data(), use);
  with.gradient(w.data(), {nullptr, 3}, q.data(), g.data(), use);
  CHECK(a == b && g == h);
  const ScoreMemo::Hold after(&small.memo);
  CHECK(after.find(w.data(), 3) != nullptr);
  CHECK(after.find(q.data(), 3) == nullptr);
}

TEST("a call gives back the scratch memory it took") {
  Small small;
  const LinearOracle oracle = small.oracle(nullptr);
  const std::vector<double> w{0.5, -0.25, 2.0}, q{1.0, 0.0, 3.0};
  std::vector<double> out(3);
  Workspace workspace;
  Resources use{workspace, 1};
  oracle.gradient(w.data(), {nullptr, 3}, q.data(), out.data(), use);
  const std::size_t held = workspace.capacity();
  for (int k = 0; k < 1000; ++k) {
    oracle.gradient(w.data(), {nullptr, 3}, q.data(), out.data(), use);
    oracle.losses(w.data(), {nullptr, 3}, out.data(), use);
  }
  CHECK(workspace.capacity() == held);
}
