// Feasible sets and prox terms on the first `size` coordinates, through one operation in the metric diag(1/m):
//
//   prox(v) = argmin_u  h(u) + sum_j (u_j - v_j)^2 / (2 step m_j),
//
// a projection when h is the indicator of a set. The separable kinds (free, box, l1, elastic net) cost one pass in any metric,
// the others a sort or a root. The NumPy twin is python/leeward/domains.py; kinds carry the numbers used there.
#pragma once

#include <cstdint>
#include <vector>

namespace leeward {

enum class DomainKind : int { free = 0, box = 1, simplex = 2, l1_ball = 3, l2_ball = 4, l1 = 5, elastic_net = 6 };

class Domain {
 public:
  Domain() = default;
  // first, second: lower and upper bounds (box); total or radius or strength (one number); l1 and l2 (elastic net).
  Domain(DomainKind kind, std::int64_t size, std::vector<double> first, std::vector<double> second);

  DomainKind kind() const { return kind_; }
  const double* first() const { return first_.data(); }    // the settings as they were given
  const double* second() const { return second_.data(); }
  bool separable() const;
  // v[0..size) <- prox(v); metric null means 1.
  void prox(double* v, double step, const double* metric);

 private:
  void simplex(double* v, double total);
  void l1_ball(double* v);
  void l2_ball(double* v) const;
  void simplex(double* v, double total, const double* metric);
  void l1_ball(double* v, const double* metric);
  void l2_ball(double* v, const double* metric) const;

  DomainKind kind_ = DomainKind::free;
  std::int64_t size_ = 0;
  std::vector<double> first_, second_;
  int width_ = 2;  // doubles in a register
  std::vector<double> sorted_, sizes_;  // scratch of the projections that sort
  std::vector<std::int64_t> order_;
};

}  // namespace leeward
