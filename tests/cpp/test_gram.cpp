#include "leeward/core/gram.hpp"

#include <cmath>
#include <cstring>
#include <vector>

#include "harness.hpp"

using namespace leeward;

namespace {

// Numbers in [-1, 1) from a linear congruence.
std::vector<double> numbers(std::int64_t n) {
  std::vector<double> out(static_cast<std::size_t>(n));
  unsigned long long state = 12345;
  for (double& x : out) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    x = static_cast<double>(state >> 11) * 0x1p-52 - 1.0;
  }
  return out;
}

std::vector<double> gram_of(std::int64_t rows, std::int64_t cols, const std::vector<double>& x, const std::vector<double>& a,
                            int threads) {
  std::vector<double> out(static_cast<std::size_t>((cols + 1) * (cols + 1)));
  Workspace workspace;
  Resources use{workspace, threads, nullptr};
  weighted_gram({x.data(), rows, cols, cols}, a.data(), true, out.data(), use);
  return out;
}

}  // namespace

TEST("a weighted Gram matrix is the sum of its rows' products, with a column of ones") {
  for (const std::int64_t cols : {1, 3, 16, 37}) {
    const std::int64_t rows = 131, dim = cols + 1;
    const std::vector<double> x = numbers(rows * cols), a = numbers(rows);
    const std::vector<double> gram = gram_of(rows, cols, x, a, 1);
    for (std::int64_t i = 0; i < dim; ++i)
      for (std::int64_t j = 0; j < dim; ++j) {
        double expected = 0.0;
        for (std::int64_t k = 0; k < rows; ++k) {
          const double* row = x.data() + k * cols;
          expected += a[static_cast<std::size_t>(k)] * (i < cols ? row[i] : 1.0) * (j < cols ? row[j] : 1.0);
        }
        CHECK(std::abs(gram[static_cast<std::size_t>(i * dim + j)] - expected) < 1e-12);
      }
  }
}

TEST("a Gram matrix has the same bits for any number of threads") {
  const std::int64_t rows = 3000, cols = 150;
  const std::vector<double> x = numbers(rows * cols), a = numbers(rows);
  const std::vector<double> one = gram_of(rows, cols, x, a, 1);
  for (const int threads : {2, 3}) {
    const std::vector<double> other = gram_of(rows, cols, x, a, threads);
    CHECK(std::memcmp(one.data(), other.data(), one.size() * sizeof(double)) == 0);
  }
}

TEST("a Cholesky factor and its two solves invert a positive definite matrix") {
  const std::int64_t n = 41;
  const std::vector<double> x = numbers(200 * (n - 1)), ones(200, 1.0);
  const std::vector<double> matrix = gram_of(200, n - 1, x, ones, 1);
  std::vector<double> factor = matrix, v = numbers(n);
  const std::vector<double> right = v;
  CHECK(cholesky(factor.data(), n) == n);
  solve_lower(factor.data(), n, v.data());
  solve_lower_transposed(factor.data(), n, v.data());
  for (std::int64_t i = 0; i < n; ++i) {
    double product = 0.0;
    for (std::int64_t j = 0; j < n; ++j) product += matrix[static_cast<std::size_t>(i * n + j)] * v[static_cast<std::size_t>(j)];
    CHECK(std::abs(product - right[static_cast<std::size_t>(i)]) < 1e-10);
  }
}

TEST("a matrix that is not positive definite, or not finite, is refused at its row") {
  std::vector<double> indefinite = {1.0, 0.0, 0.0, -1.0};
  CHECK(cholesky(indefinite.data(), 2) == 1);
  std::vector<double> broken = {std::nan(""), 0.0, 0.0, 1.0};
  CHECK(cholesky(broken.data(), 2) == 0);
}
