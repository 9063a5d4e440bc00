// Makes points around the rows of a linear model, some at a time, with their labels and transport costs.
//
// The random numbers of draw j of set s are numbers j W .. j W + W - 1 of the stream (seed, noise, s), W even: those of the
// features first, then one of the label. Draws of one set that follow each other are filled together.
#pragma once

#include <algorithm>
#include <cstdint>

#include "leeward/oracle/perturbed.hpp"

namespace leeward {

// Displacements and costs of one point; all arrays hold `cols` numbers. Vectorised at each SIMD level.
namespace points {
void add_scaled(const double* a, const double* z, const double* scale, bool single, std::int64_t cols, double* x);
void add_factored(const double* a, const double* z, const double* factor, std::int64_t cols, double* x);
void add_laplace(const double* a, const double* u, const double* scale, bool single, std::int64_t cols, double* x);
void add_ball(const double* a, const double* z, const double* scale, bool single, std::int64_t cols, double* x);  // z: cols + 2 normals
void add(const double* a, const double* b, std::int64_t cols, double* x);
void clip(const double* lower, const double* upper, std::int64_t cols, double* x);
double cost(CostKind kind, const double* a, const double* x, std::int64_t cols);
}  // namespace points

class PointMaker {
 public:
  // How many points are made at a time, and the numbers of memory that takes.
  static std::int64_t tile(std::int64_t cols) { return std::clamp<std::int64_t>(16384 / (cols + 1), 8, 256) / 8 * 8; }
  static std::int64_t doubles(const PerturbedLinear& oracle);

  PointMaker(const PerturbedLinear& oracle, double* memory);

  // Points number v[0..count), count <= tile. costs may be null.
  void make(const std::int64_t* v, std::int64_t count, double* costs);

  const double* x() const { return x_; }            // (count, cols)
  const double* labels() const { return labels_; }  // (count)

 private:
  static std::int64_t features(const PerturbedLinear& oracle);  // numbers for the features of a draw, rounded up to even
  static std::int64_t width(const PerturbedLinear& oracle);
  void one(const double* z, double label_z, std::int64_t k);

  const PerturbedLinear& oracle_;
  const LinearMatrix& matrix_;
  std::int64_t cols_, features_, width_, at_ = -1;  // at_: the sample whose row is in a_
  double *a_, *x_, *z_, *labels_, *label_z_;
};

}  // namespace leeward
