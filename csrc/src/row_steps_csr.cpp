// CSR rows. A coordinate is brought up to date when a row needs it: the steps since then acted on it through their dense
// part alone, whose iterate is a closed form (core/lazy_steps.hpp). A step costs O(entries of its rows); finish() makes up
// the rest.
//
// What belongs to a coordinate lies together, for rows touch coordinates at random. A step takes four passes over its rows:
// bring up to date and multiply; dense part of the step, then the rows' own; prox. Columns named twice in a row add up.
#include <stdexcept>
#include <utility>
#include <vector>

#include "leeward/core/simd.hpp"
#include "leeward/oracle/prefetch.hpp"
#include "leeward/oracle/row_steps.hpp"

namespace leeward {
namespace {

constexpr std::int64_t kRowsAhead = 4;  // whose entries are fetched; the coordinates of the next row but one

// due: the number of steps done. While a step is being made, -1 - due marks a coordinate whose prox is still to come.
struct alignas(32) Coordinate {
  double w, c, at;
  std::int64_t due;
};

// Of a coordinate with a metric of its own: the powers of its decay, and step metric / (1 + step metric l2 of the prox).
struct alignas(32) Scale {
  OwnPower powers;
  double step;
};

// Where a coordinate's recursion comes from, by its kind of prox.
struct FreeKind {
  static constexpr bool kProx = false;
  LazyFree of(const Coordinate& x, std::int64_t) const { return {x.c}; }
  double prox(double v, std::int64_t) const { return v; }
};
struct BoxKind {
  static constexpr bool kProx = true;
  const double *lower, *upper;
  LazyBox of(const Coordinate& x, std::int64_t j) const { return {x.c, lower[j], upper[j]}; }
  double prox(double v, std::int64_t j) const { return std::min(std::max(v, lower[j]), upper[j]); }
};
// Everything divided by 1 + step l2 of the prox.
struct ShrinkKind {
  static constexpr bool kProx = true;
  double t;             // of all coordinates, or
  const Scale* scales;  // where not null,
  double l1;            // step l1 of each
  double threshold(std::int64_t j) const { return scales ? scales[j].step * l1 : t; }
  LazyShrink of(const Coordinate& x, std::int64_t j) const { return {x.c, threshold(j)}; }
  double prox(double v, std::int64_t j) const { return shrink(v, threshold(j)); }
};

// Brings coordinates up to step `now`: everything by value, so that a loop need not read it again after each store.
template <class Kind>
struct Laggard {
  Kind kind;
  PowerTable::View powers;
  const Scale* scales;
  std::int64_t now;

  LEEWARD_INLINE void bring(Coordinate& x, std::int64_t j) const {
    if (x.due == now) return;
    x.w = scales != nullptr ? kind.of(x, j).advance(scales[j].powers, x.w, now - x.due)
                            : kind.of(x, j).advance(powers, x.w, now - x.due);
    x.due = now;
  }
};

struct Bias {
  double w = 0, at = 0, c = 0, step = 0;
};

template <class T, class I>
class CsrSteps final : public RowSteps {
 public:
  CsrSteps(CsrView<T, I> x, StepModel model)
      : x_(x),
        model_(model),
        slope_(model),
        coordinates_(static_cast<std::size_t>(model.outputs * x.cols)),
        bias_(static_cast<std::size_t>(model.outputs)) {}

  void begin(const StepRule& rule, const double* w) override {
    rule_ = rule;
    const double l2 = rule.prox.kind == CoordinateProx::shrink ? rule.prox.l2 : 0.0;
    const double divisor = 1.0 + rule.step * l2;
    scale_ = rule.step / divisor;
    powers_.set((1.0 - rule.step * rule.l2) / divisor);
    done_ = 0;
    if (rule.metric != nullptr) {
      scales_.resize(coordinates_.size());
      for (std::size_t j = 0; j < scales_.size(); ++j) {
        const double step = rule.step * rule.metric[j], own = 1.0 + step * l2;
        scales_[j] = {OwnPower::of(step * (rule.l2 + l2) / own), step / own};
      }
    }
    for (std::size_t j = 0; j < coordinates_.size(); ++j)
      coordinates_[j] = {w[j], rule.base ? (rule.metric ? scales_[j].step : scale_) * rule.base[j] : 0.0,
                         rule.snapshot ? rule.snapshot[j] : 0.0, 0};
    for (std::size_t c = 0; c < bias_.size(); ++c) {
      bias_[c] = Bias{};
      if (!model_.intercept) continue;
      const std::size_t j = coordinates_.size() + c;
      const double step = rule.metric ? rule.step * rule.metric[j] : rule.step;
      bias_[c] = {w[j], rule.snapshot ? rule.snapshot[j] : 0.0, rule.base ? step * rule.base[j] : 0.0, step};
    }
  }

  void run(const StepRows& rows) override {
    switch (rule_.prox.kind) {
      case CoordinateProx::box:
        return go(rows, BoxKind{rule_.prox.lower, rule_.prox.upper});
      case CoordinateProx::shrink:
        return go(rows, shrinking());
      case CoordinateProx::none:
        return go(rows, FreeKind{});
    }
  }

  void finish(double* w) override {
    make_up();
    for (std::size_t j = 0; j < coordinates_.size(); ++j) w[j] = coordinates_[j].w;
    if (model_.intercept)
      for (std::size_t c = 0; c < bias_.size(); ++c) w[coordinates_.size() + c] = bias_[c].w;
  }

 private:
  ShrinkKind shrinking() const { return {scale_ * rule_.prox.l1, rule_.metric ? scales_.data() : nullptr, rule_.prox.l1}; }

  // Every coordinate up to date; step numbers begin anew, so that they stay within the tables of powers.
  void make_up() {
    switch (rule_.prox.kind) {
      case CoordinateProx::box:
        make_up_all(BoxKind{rule_.prox.lower, rule_.prox.upper});
        break;
      case CoordinateProx::shrink:
        make_up_all(shrinking());
        break;
      case CoordinateProx::none:
        make_up_all(FreeKind{});
        break;
    }
  }
  template <class Kind>
  void make_up_all(const Kind& kind) {
    const Laggard<Kind> laggard{kind, powers_.view(), rule_.metric ? scales_.data() : nullptr, done_};
    for (std::size_t j = 0; j < coordinates_.size(); ++j) {
      laggard.bring(coordinates_[j], static_cast<std::int64_t>(j));
      coordinates_[j].due = 0;
    }
    done_ = 0;
  }

  Coordinate* output(std::int64_t c) { return coordinates_.data() + c * x_.cols; }
  const Coordinate* output(std::int64_t c) const { return coordinates_.data() + c * x_.cols; }
  std::pair<std::int64_t, std::int64_t> entries(std::int64_t i) const { return {x_.indptr[i], x_.indptr[i + 1]}; }

  void fetch_entries(std::int64_t i) const {
    const auto [first, last] = entries(i);
    const char* const values = reinterpret_cast<const char*>(x_.data + first);
    const char* const columns = reinterpret_cast<const char*>(x_.indices + first);
    for (std::int64_t b = 0; b < (last - first) * static_cast<std::int64_t>(sizeof(T)); b += 64)
      LEEWARD_PREFETCH(values + b);
    for (std::int64_t b = 0; b < (last - first) * static_cast<std::int64_t>(sizeof(I)); b += 64)
      LEEWARD_PREFETCH(columns + b);
  }
  void fetch_coordinates(std::int64_t i) const {
    const auto [first, last] = entries(i);
    for (std::int64_t e = first; e < last; ++e)
      for (std::int64_t c = 0; c < model_.outputs; ++c) {
        LEEWARD_PREFETCH(output(c) + x_.indices[e]);
        if (rule_.metric) LEEWARD_PREFETCH(scales_.data() + c * x_.cols + x_.indices[e]);
      }
  }

  // z = x_i . w for one output, its coordinates brought up to date, and x_i . w~ where kTwo.
  template <bool kTwo, class Kind>
  std::pair<double, double> dots(std::int64_t i, std::int64_t c, const Kind& kind) {
    const auto [first, last] = entries(i);
    Coordinate* const at = output(c);
    const Laggard<Kind> laggard{kind, powers_.view(), rule_.metric ? scales_.data() : nullptr, done_};
    const CsrView<T, I> x = x_;
    const std::int64_t offset = c * x.cols;
    double z = 0.0, there = 0.0;
    for (std::int64_t e = first; e < last; ++e) {
      const auto j = static_cast<std::int64_t>(x.indices[e]);
      Coordinate& own = at[j];
      laggard.bring(own, offset + j);
      z += static_cast<double>(x.data[e]) * own.w;
      if constexpr (kTwo) there += static_cast<double>(x.data[e]) * own.at;
    }
    return {z, there};
  }

  // The step of a row's coordinates, without the prox; then the row's own part. Everything is scaled by 1/divisor.
  template <class Kind>
  void add(std::int64_t i, std::int64_t c, double r) {
    const auto [first, last] = entries(i);
    Coordinate* const at = output(c);
    const CsrView<T, I> x = x_;
    const Scale* const scales = rule_.metric ? scales_.data() + c * x.cols : nullptr;
    const std::int64_t mark = Kind::kProx ? -2 - done_ : done_ + 1;
    const double a = powers_.view().a, scaled = scale_ * r;
    if (scales != nullptr) {
      for (std::int64_t e = first; e < last; ++e) {
        Coordinate& own = at[x.indices[e]];
        const Scale& scale = scales[x.indices[e]];
        if (own.due != mark) own.w = scale.powers.a * own.w - own.c;
        own.due = mark;
        own.w -= scale.step * r * static_cast<double>(x.data[e]);
      }
      return;
    }
    for (std::int64_t e = first; e < last; ++e) {
      Coordinate& own = at[x.indices[e]];
      if (own.due != mark) own.w = a * own.w - own.c;
      own.due = mark;
      own.w -= scaled * static_cast<double>(x.data[e]);
    }
  }
  template <class Kind>
  void prox(std::int64_t i, std::int64_t c, Kind kind) {
    const auto [first, last] = entries(i);
    Coordinate* const at = output(c);
    const CsrView<T, I> x = x_;
    const std::int64_t due = done_ + 1, offset = c * x.cols;
    for (std::int64_t e = first; e < last; ++e) {
      Coordinate& own = at[x.indices[e]];
      if (own.due >= 0) continue;
      own.w = kind.prox(own.w, offset + static_cast<std::int64_t>(x.indices[e]));
      own.due = due;
    }
  }

  template <class Kind>
  void go(const StepRows& rows, const Kind& kind) {
    if (rule_.snapshot != nullptr && rows.slopes == nullptr) return go_all<true>(rows, kind);
    go_all<false>(rows, kind);
  }

  template <bool kTwo, class Kind>
  void go_all(const StepRows& rows, const Kind& kind) {
    const std::int64_t outputs = model_.outputs;
    numbers_.resize(static_cast<std::size_t>((rows.batch + 2) * outputs));
    double* const slopes = numbers_.data();
    double* const z = slopes + rows.batch * outputs;
    double* const past = z + outputs;
    for (std::int64_t k = 0; k < rows.rows(); k += rows.batch) {
      if (done_ == PowerTable::kMost) make_up();
      for (std::int64_t i = 0; i < rows.batch; ++i) {
        fetch_entries(rows.coming(k + i, kRowsAhead));
        fetch_coordinates(rows.coming(k + i, 2));
        const double y = rows.labels[k + i];
        double* const r = slopes + i * outputs;
        for (std::int64_t c = 0; c < outputs; ++c) {
          const Bias& b = bias_[static_cast<std::size_t>(c)];
          const auto [here, there] = dots<kTwo>(rows.index[k + i], c, kind);
          z[c] = here + b.w;
          past[c] = there + b.at;
        }
        if (outputs == 1) {
          const double before = kTwo ? slope_.scalar(past[0], y) : (rows.slopes ? rows.slopes[k + i] : 0.0);
          r[0] = rows.factor(k + i) * (slope_.scalar(z[0], y) - before);
          continue;
        }
        slope_.many(z, y, r);
        if constexpr (kTwo) slope_.many(past, y, z);
        for (std::int64_t c = 0; c < outputs; ++c) {
          const double before = kTwo ? z[c] : (rows.slopes ? rows.slopes[(k + i) * outputs + c] : 0.0);
          r[c] = rows.factor(k + i) * (r[c] - before);
        }
      }
      for (std::int64_t c = 0; c < outputs; ++c) {
        Bias& b = bias_[static_cast<std::size_t>(c)];
        double sum = 0.0;
        for (std::int64_t i = 0; i < rows.batch; ++i) {
          add<Kind>(rows.index[k + i], c, slopes[i * outputs + c]);
          sum += slopes[i * outputs + c];
        }
        if constexpr (Kind::kProx)
          for (std::int64_t i = 0; i < rows.batch; ++i) prox(rows.index[k + i], c, kind);
        b.w = (b.w - b.c) - b.step * sum;
      }
      ++done_;
    }
  }

  CsrView<T, I> x_;
  StepModel model_;
  StepSlope slope_;
  StepRule rule_;
  PowerTable powers_;
  double scale_ = 0;  // step / (1 + step l2 of the prox)
  std::int64_t done_ = 0;
  std::vector<Coordinate> coordinates_;
  std::vector<Scale> scales_;  // with a metric
  std::vector<Bias> bias_;
  std::vector<double> numbers_;
};

}  // namespace

template <class T, class I>
std::unique_ptr<RowSteps> make_csr_steps(CsrView<T, I> x, StepModel model) {
  return std::make_unique<CsrSteps<T, I>>(x, model);
}
template std::unique_ptr<RowSteps> make_csr_steps(CsrView<float, std::int32_t>, StepModel);
template std::unique_ptr<RowSteps> make_csr_steps(CsrView<float, std::int64_t>, StepModel);
template std::unique_ptr<RowSteps> make_csr_steps(CsrView<double, std::int32_t>, StepModel);
template std::unique_ptr<RowSteps> make_csr_steps(CsrView<double, std::int64_t>, StepModel);

}  // namespace leeward
