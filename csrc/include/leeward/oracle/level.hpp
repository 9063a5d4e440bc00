// One level of a composition F = f_K o ... o f_1: a vector function that is a mean over samples,
//
//   f(u) = (1/n) sum_s f(u; s),   u in R^inputs,   f(u; s) = (computed outputs, some inputs as they are),
//
// asked for its value and Jacobian at one or two points for given sample numbers. Inputs that pass through are a part of the shape:
// nobody stores their identity block. A level may answer products with its Jacobian only. Adding one: docs/extending/level.md.
#pragma once

#include <cstdint>

#include "leeward/core/resources.hpp"
#include "leeward/core/views.hpp"

namespace leeward {

struct LevelShape {
  std::int64_t inputs = 1;
  std::int64_t computed = 1;        // outputs that are computed: the rows of a Jacobian
  std::int64_t keep = 0, kept = 0;  // inputs keep .. keep + kept - 1 follow them as outputs
  std::int64_t size = 1;            // samples of the mean; one sample: nothing is drawn
  std::int64_t population = 1;      // sample numbers that may be drawn, size or more
  bool jacobians = true;            // false: only products, through pull and push
  bool pushes = true;               // whether push has an answer
  std::int64_t positive = 0, positives = 0;  // inputs positive .. positive + positives - 1 must be at least `floor`
  double floor = 0;

  std::int64_t outputs() const { return computed + kept; }
  std::int64_t entries() const { return jacobians ? computed * inputs : 0; }
};

// A point, and where the answers go; null: not wanted.
struct LevelPoint {
  const double* point = nullptr;  // (inputs)
  double* value = nullptr;        // (computed)
  double* jacobian = nullptr;     // (computed, inputs), row-major
};

class Level {
 public:
  virtual ~Level() = default;
  const LevelShape& shape() const { return shape_; }

  // Means over the batch at each of `count` points: the same draw at all of them.
  virtual void evaluate(const LevelPoint* at, int count, Batch batch, Resources& use) const = 0;
  // Says that the rows of a batch are wanted soon: their memory can be fetched.
  virtual void expect(Batch) const {}
  // out[inputs] = J(u; batch)^T weights, weights of the computed outputs. By default by way of the Jacobian.
  virtual void pull(const double* u, Batch batch, const double* weights, double* out, Resources& use) const;
  // out[computed] = J(u; batch) direction. By default by way of the Jacobian.
  virtual void push(const double* u, Batch batch, const double* direction, double* out, Resources& use) const;

 protected:
  explicit Level(const LevelShape& shape);  // throws std::invalid_argument for a shape that makes no sense

 private:
  LevelShape shape_;
};

// out[cols] = A^T weights and out[rows] = A direction, A (rows, cols) row-major.
void multiply_transposed(const double* a, std::int64_t rows, std::int64_t cols, const double* weights, double* out);
void multiply(const double* a, std::int64_t rows, std::int64_t cols, const double* direction, double* out);

}  // namespace leeward
