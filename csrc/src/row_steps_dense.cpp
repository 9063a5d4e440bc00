// Dense rows. With one row a step, the update by a row and the dot product with the next one are a single pass over w.
//
// w and the vectors beside it are kept in blocks of 16 coordinates: the whole blocks of a row, then the row's last 16
// columns, of which those already in a whole block count 0 (rows shorter than 16 are copied). Entry j of x . w goes to lane
// j mod 16, lane l + 8 is added to lane l, and the 8 are folded by halves.
#include <algorithm>
#include <vector>

#include "leeward/core/simd.hpp"
#include "leeward/oracle/prefetch.hpp"
#include "leeward/oracle/row_steps.hpp"

namespace leeward {
namespace {

constexpr std::int64_t kWide = 16;
constexpr std::int64_t kRowsAhead = 3;

// How the columns of a row fall into blocks.
struct Blocks {
  std::int64_t cols, whole, first, padded;
  explicit Blocks(std::int64_t n)
      : cols(n),
        whole(n / kWide * kWide),
        first(n == whole ? n : std::max<std::int64_t>(n - kWide, 0)),
        padded(n == whole ? n : whole + kWide) {}
  // The column of place p of the padded layout, or -1 where it counts 0.
  std::int64_t column(std::int64_t p) const {
    if (p < whole) return p;
    const std::int64_t j = first + (p - whole);
    return j >= whole && j < cols ? j : -1;
  }
};

// What the kernels read; vectors are padded, one stretch an output.
template <class T>
struct Job {
  DenseView<T> x;
  Blocks blocks;
  double* w;
  const double* c;     // step metric g
  const double* at;    // w~, or null
  const double* mask;  // 16: 1 where the last block counts
  double step;
};

// The part of a step that is one coordinate's own: first(a w - c), scale of the row's part, prox.
struct FreeLaw {
  double a;
  LEEWARD_INLINE double decay(double w, std::int64_t) const { return a * w; }
  LEEWARD_INLINE double scale(double r, std::int64_t) const { return r; }
  LEEWARD_INLINE double prox(double v, std::int64_t) const { return v; }
  static constexpr bool kProx = false;
};
struct MetricLaw {
  const double *a, *m;
  LEEWARD_INLINE double decay(double w, std::int64_t j) const { return a[j] * w; }
  LEEWARD_INLINE double scale(double r, std::int64_t j) const { return r * m[j]; }
  LEEWARD_INLINE double prox(double v, std::int64_t) const { return v; }
  static constexpr bool kProx = false;
};
struct BoxLaw : MetricLaw {
  const double *lower, *upper;
  LEEWARD_INLINE double prox(double v, std::int64_t j) const {
    const double up = v < lower[j] ? lower[j] : v;
    return up > upper[j] ? upper[j] : up;
  }
  static constexpr bool kProx = true;
};
struct ShrinkLaw : MetricLaw {
  const double *t, *inverse;
  LEEWARD_INLINE double prox(double v, std::int64_t j) const {
    const double above = v - t[j], below = v + t[j];
    return ((above > 0.0 ? above : 0.0) + (below < 0.0 ? below : 0.0)) * inverse[j];
  }
  static constexpr bool kProx = true;
};

template <class T>
LEEWARD_INLINE void fetch(const T* x) {
  LEEWARD_PREFETCH(x);
  if constexpr (sizeof(T) == 8) LEEWARD_PREFETCH(x + 8);
}

// The last block of a row as doubles.
template <class T>
LEEWARD_INLINE void load_last(const Job<T>& job, const T* x, double* LEEWARD_RESTRICT out) {
  const Blocks& b = job.blocks;
  if (b.cols < kWide) {
    for (std::int64_t l = 0; l < kWide; ++l) out[l] = 0.0;
    for (std::int64_t l = 0; l < b.cols; ++l) out[l] = static_cast<double>(x[l]);
    return;
  }
  const T* LEEWARD_RESTRICT last = x + b.first;
  LEEWARD_LANES
  for (int l = 0; l < 16; ++l) out[l] = static_cast<double>(last[l]) * job.mask[l];
}

struct Sums {
  double low[8] = {}, high[8] = {};
  LEEWARD_INLINE double fold() const {
    double lane[8];
    LEEWARD_LANES
    for (int l = 0; l < 8; ++l) lane[l] = low[l] + high[l];
    return ((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7]));
  }
  template <class X>
  LEEWARD_INLINE void add(const X* LEEWARD_RESTRICT x, const double* LEEWARD_RESTRICT w) {
    LEEWARD_LANES
    for (int l = 0; l < 8; ++l) low[l] += static_cast<double>(x[l]) * w[l];
    LEEWARD_LANES
    for (int l = 0; l < 8; ++l) high[l] += static_cast<double>(x[8 + l]) * w[8 + l];
  }
};

template <class T>
LEEWARD_INLINE double dot(const Job<T>& job, const T* x, const double* w) {
  Sums sums;
  std::int64_t j = 0;
  for (; j < job.blocks.whole; j += kWide) sums.add(x + j, w + j);
  if (j < job.blocks.padded) {
    double last[kWide];
    load_last(job, x, last);
    sums.add(last, w + j);
  }
  return sums.fold();
}

// A block's move, 16 coordinates from j on. kFirst: the dense part; kLast: the prox.
template <bool kFirst, bool kLast, class X, class Law>
LEEWARD_INLINE void move_block(const Law& law, const X* LEEWARD_RESTRICT x, double r, const double* LEEWARD_RESTRICT c,
                               double* LEEWARD_RESTRICT w, std::int64_t j) {
  LEEWARD_LANES
  for (int l = 0; l < 8; ++l) {
    double v = kFirst ? law.decay(w[j + l], j + l) - c[j + l] : w[j + l];
    v -= law.scale(r, j + l) * static_cast<double>(x[l]);
    w[j + l] = kLast ? law.prox(v, j + l) : v;
  }
  LEEWARD_LANES
  for (int l = 8; l < 16; ++l) {
    double v = kFirst ? law.decay(w[j + l], j + l) - c[j + l] : w[j + l];
    v -= law.scale(r, j + l) * static_cast<double>(x[l]);
    w[j + l] = kLast ? law.prox(v, j + l) : v;
  }
}

template <bool kFirst, bool kLast, class T, class Law>
LEEWARD_INLINE void move(const Job<T>& job, const Law& law, const T* x, double r, const double* c, double* w) {
  std::int64_t j = 0;
  for (; j < job.blocks.whole; j += kWide) move_block<kFirst, kLast>(law, x + j, r, c, w, j);
  if (j < job.blocks.padded) {
    double last[kWide];
    load_last(job, x, last);
    move_block<kFirst, kLast>(law, last, r, c, w, j);
  }
}

// One row a step, one output: move by x, dot with next at once. Returns x_next . w, and x_next . w~ where kTwo.
template <bool kTwo, class T, class Law>
LEEWARD_INLINE double move_and_dot(const Job<T>& job, const Law& law, const T* x, const T* next, const T* ahead, double r,
                                   double* at_snapshot) {
  Sums sums, others;
  std::int64_t j = 0;
  for (; j < job.blocks.whole; j += kWide) {
    fetch(ahead + j);
    move_block<true, true>(law, x + j, r, job.c, job.w, j);
    sums.add(next + j, job.w + j);
    if constexpr (kTwo) others.add(next + j, job.at + j);
  }
  if (j < job.blocks.padded) {
    fetch(ahead + job.blocks.first);
    double last[kWide];
    load_last(job, x, last);
    move_block<true, true>(law, last, r, job.c, job.w, j);
    load_last(job, next, last);
    sums.add(last, job.w + j);
    if constexpr (kTwo) others.add(last, job.at + j);
  }
  if constexpr (kTwo) *at_snapshot = others.fold();
  return sums.fold();
}

// The intercept's own part of a step.
struct Bias {
  double w = 0, at = 0, c = 0, step = 0;
  LEEWARD_INLINE void move(double r) { w = (w - c) - step * r; }
};

template <bool kTwo, class T, class Law>
LEEWARD_INLINE void single_body(const Job<T>& job, const StepSlope& slope, const StepRows& rows, Law law, Bias& bias) {
  if (rows.steps == 0) return;
  const T* x = job.x.row(rows.index[0]);
  double there = 0.0, z = dot(job, x, job.w);
  if constexpr (kTwo) there = dot(job, x, job.at);
  for (std::int64_t k = 0; k < rows.steps; ++k) {
    double past = rows.slopes ? rows.slopes[k] : 0.0;
    if constexpr (kTwo) past = slope.scalar(there + bias.at, rows.labels[k]);
    const double r = rows.factor(k) * (slope.scalar(z + bias.w, rows.labels[k]) - past);
    const T* const next = job.x.row(rows.coming(k, 1));
    z = move_and_dot<kTwo>(job, law, x, next, job.x.row(rows.coming(k, kRowsAhead)), job.step * r, &there);
    bias.move(r);
    x = next;
  }
}

// Any number of rows and outputs; r holds batch * outputs numbers, z and past one an output.
struct Scratch {
  double *r, *z, *past;
  Bias* bias;
  std::int64_t outputs;
};

template <class T, class Law>
LEEWARD_INLINE void many_body(const Job<T>& job, const StepSlope& slope, const StepRows& rows, const Law* laws, Scratch s) {
  const std::int64_t width = job.blocks.padded;
  for (std::int64_t k = 0; k < rows.rows(); k += rows.batch) {
    for (std::int64_t i = 0; i < rows.batch; ++i) {
      const T* const x = job.x.row(rows.index[k + i]);
      const T* const ahead = job.x.row(rows.coming(k + i, kRowsAhead));
      for (std::int64_t j = 0; j < job.blocks.cols; j += kWide) fetch(ahead + j);
      double* const r = s.r + i * s.outputs;
      for (std::int64_t c = 0; c < s.outputs; ++c) s.z[c] = dot(job, x, job.w + c * width) + s.bias[c].w;
      const double* past = rows.slopes ? rows.slopes + (k + i) * s.outputs : nullptr;
      if (past == nullptr && job.at != nullptr) {
        for (std::int64_t c = 0; c < s.outputs; ++c) r[c] = dot(job, x, job.at + c * width) + s.bias[c].at;
        slope.many(r, rows.labels[k + i], s.past);
        past = s.past;
      }
      slope.many(s.z, rows.labels[k + i], r);
      for (std::int64_t c = 0; c < s.outputs; ++c) r[c] = rows.factor(k + i) * (r[c] - (past ? past[c] : 0.0));
    }
    for (std::int64_t c = 0; c < s.outputs; ++c) {
      const Law& law = laws[c];
      double* const w = job.w + c * width;
      const double* const dense = job.c + c * width;
      double sum = 0.0;
      for (std::int64_t i = 0; i < rows.batch; ++i) {
        const T* const x = job.x.row(rows.index[k + i]);
        const double r = s.r[i * s.outputs + c];
        const bool last = i + 1 == rows.batch;
        if (i == 0 && last)
          move<true, true>(job, law, x, job.step * r, dense, w);
        else if (i == 0)
          move<true, false>(job, law, x, job.step * r, dense, w);
        else if (last)
          move<false, true>(job, law, x, job.step * r, dense, w);
        else
          move<false, false>(job, law, x, job.step * r, dense, w);
        sum += r;
      }
      s.bias[c].move(sum);
    }
  }
}

#define LEEWARD_STEPS(T, Law)                                                                                             \
  LEEWARD_CLONES void single(const Job<T>& job, const StepSlope& slope, const StepRows& rows, Law law, Bias& bias) {      \
    if (job.at != nullptr && rows.slopes == nullptr) return single_body<true>(job, slope, rows, law, bias);               \
    single_body<false>(job, slope, rows, law, bias);                                                                      \
  }                                                                                                                       \
  LEEWARD_CLONES void many(const Job<T>& job, const StepSlope& slope, const StepRows& rows, const Law* laws, Scratch s) { \
    many_body(job, slope, rows, laws, s);                                                                                 \
  }
LEEWARD_STEPS(float, FreeLaw)
LEEWARD_STEPS(float, MetricLaw)
LEEWARD_STEPS(float, BoxLaw)
LEEWARD_STEPS(float, ShrinkLaw)
LEEWARD_STEPS(double, FreeLaw)
LEEWARD_STEPS(double, MetricLaw)
LEEWARD_STEPS(double, BoxLaw)
LEEWARD_STEPS(double, ShrinkLaw)

template <class T>
class DenseSteps final : public RowSteps {
 public:
  DenseSteps(DenseView<T> x, StepModel model)
      : x_(x), blocks_(x.cols), model_(model), slope_(model), bias_(static_cast<std::size_t>(model.outputs)) {
    for (std::int64_t l = 0; l < kWide; ++l) mask_[l] = blocks_.column(blocks_.whole + l) >= 0 ? 1.0 : 0.0;
  }

  void begin(const StepRule& rule, const double* w) override {
    rule_ = rule;
    const bool arrays = rule.metric != nullptr || rule.prox.kind != CoordinateProx::none;
    pad(w_, w, 0.0);
    pad(at_, rule.snapshot, 0.0);
    pad(c_, rule.base, 0.0);
    pad(m_, rule.metric, 1.0);
    for (std::size_t p = 0; p < c_.size(); ++p) c_[p] *= rule.step * m_[p];
    if (arrays) {
      a_.resize(m_.size());
      for (std::size_t p = 0; p < a_.size(); ++p) a_[p] = 1.0 - rule.step * m_[p] * rule.l2;
    }
    pad(first_, rule.prox.lower, 0.0);
    pad(second_, rule.prox.upper, 0.0);
    if (rule.prox.kind == CoordinateProx::shrink)
      for (std::size_t p = 0; p < m_.size(); ++p) {
        first_[p] = rule.step * m_[p] * rule.prox.l1;
        second_[p] = 1.0 / (1.0 + rule.step * m_[p] * rule.prox.l2);
      }
    for (std::int64_t c = 0; c < model_.outputs; ++c) {
      const std::int64_t j = model_.outputs * x_.cols + c;
      Bias& b = bias_[static_cast<std::size_t>(c)];
      b = Bias{};
      if (!model_.intercept) continue;
      b.step = rule.metric ? rule.step * rule.metric[j] : rule.step;
      b.w = w[j];
      b.at = rule.snapshot ? rule.snapshot[j] : 0.0;
      b.c = rule.base ? b.step * rule.base[j] : 0.0;
    }
  }

  void run(const StepRows& rows) override {
    const Job<T> job{x_, blocks_, w_.data(), c_.data(), rule_.snapshot ? at_.data() : nullptr, mask_, rule_.step};
    const auto wide = [&](std::int64_t c) { return c * blocks_.padded; };
    const auto metric = [&](std::int64_t c) { return MetricLaw{a_.data() + wide(c), m_.data() + wide(c)}; };
    switch (rule_.prox.kind) {
      case CoordinateProx::box:
        return go(job, rows,
                  [&](std::int64_t c) { return BoxLaw{metric(c), first_.data() + wide(c), second_.data() + wide(c)}; });
      case CoordinateProx::shrink:
        return go(job, rows,
                  [&](std::int64_t c) { return ShrinkLaw{metric(c), first_.data() + wide(c), second_.data() + wide(c)}; });
      case CoordinateProx::none:
        if (rule_.metric != nullptr) return go(job, rows, metric);
        return go(job, rows, [&](std::int64_t) { return FreeLaw{1.0 - rule_.step * rule_.l2}; });
    }
  }

  void finish(double* w) override {
    for (std::int64_t c = 0; c < model_.outputs; ++c) {
      for (std::int64_t p = 0; p < blocks_.padded; ++p)
        if (const std::int64_t j = blocks_.column(p); j >= 0)
          w[c * x_.cols + j] = w_[static_cast<std::size_t>(c * blocks_.padded + p)];
      if (model_.intercept) w[model_.outputs * x_.cols + c] = bias_[static_cast<std::size_t>(c)].w;
    }
  }

 private:
  // The padded layout of a vector of coefficients; `rest` where it is null or counts 0.
  void pad(std::vector<double>& to, const double* from, double rest) {
    to.assign(static_cast<std::size_t>(model_.outputs * blocks_.padded), rest);
    if (from == nullptr) return;
    for (std::int64_t c = 0; c < model_.outputs; ++c)
      for (std::int64_t p = 0; p < blocks_.padded; ++p)
        if (const std::int64_t j = blocks_.column(p); j >= 0)
          to[static_cast<std::size_t>(c * blocks_.padded + p)] = from[c * x_.cols + j];
  }

  template <class Make>
  void go(const Job<T>& job, const StepRows& rows, const Make& make) {
    if (rows.batch == 1 && model_.outputs == 1) return single(job, slope_, rows, make(0), bias_[0]);
    using Law = decltype(make(0));
    std::vector<Law> laws;
    for (std::int64_t c = 0; c < model_.outputs; ++c) laws.push_back(make(c));
    numbers_.resize(static_cast<std::size_t>((rows.batch + 2) * model_.outputs));
    double* const r = numbers_.data();
    double* const z = r + rows.batch * model_.outputs;
    many(job, slope_, rows, laws.data(), Scratch{r, z, z + model_.outputs, bias_.data(), model_.outputs});
  }

  DenseView<T> x_;
  Blocks blocks_;
  StepModel model_;
  StepSlope slope_;
  StepRule rule_;
  double mask_[kWide] = {};
  std::vector<double> w_, at_, c_, m_, a_, first_, second_, numbers_;
  std::vector<Bias> bias_;
};

}  // namespace

template <class T>
std::unique_ptr<RowSteps> make_dense_steps(DenseView<T> x, StepModel model) {
  return std::make_unique<DenseSteps<T>>(x, model);
}
template std::unique_ptr<RowSteps> make_dense_steps(DenseView<float>, StepModel);
template std::unique_ptr<RowSteps> make_dense_steps(DenseView<double>, StepModel);

}  // namespace leeward
