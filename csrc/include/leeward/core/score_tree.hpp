// Items with a score and a mass, in order of their scores, with the sums over any upper or lower part of them in O(log n): a treap,
// each node holding the sums of its subtree.
//
// The priority of an item is a function of its number, so the tree, and every bit of its sums, follows from the scores alone,
// whatever the order in which they were set.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace leeward {

class ScoreTree {
 public:
  // Of some items of mass m and score s: the sums of m, m s and m s^2, the largest score, and the sum of m e^(s - top).
  struct Sums {
    double mass = 0, first = 0, second = 0, top = -std::numeric_limits<double>::infinity(), power = 0;
    Sums& operator+=(const Sums& other) {
      mass += other.mass;
      first += other.first;
      second += other.second;
      if (other.power > 0.0) {
        if (other.top > top) {
          power = (power > 0.0 ? power * std::exp(top - other.top) : 0.0) + other.power;
          top = other.top;
        } else {
          power += other.power * std::exp(other.top - top);
        }
      }
      return *this;
    }
    // sum of m e^(s - reference)
    double power_from(double reference) const { return power > 0.0 ? power * std::exp(top - reference) : 0.0; }
  };

  explicit ScoreTree(std::int64_t size);  // numbers 0..size-1, none inside

  bool inside(std::int64_t item) const { return inside_[static_cast<std::size_t>(item)] != 0; }
  double score(std::int64_t item) const { return score_[static_cast<std::size_t>(item)]; }
  double mass(std::int64_t item) const { return mass_[static_cast<std::size_t>(item)]; }
  Sums all() const { return sums(root_); }
  void clear();

  // Puts an item in, or moves it.
  void set(std::int64_t item, double score, double mass);
  void remove(std::int64_t item);
  // Splits the items, in falling order of scores, where `enters(item, above, below)` turns false: `above` are the sums of the items
  // above this one and `below` those of the items below. Once false it must stay false.
  struct Parts {
    Sums upper, lower;
  };
  template <class Enters>
  Parts split_where(const Enters& enters) const {
    Parts parts;
    for (std::int64_t v = root_; v != kNone;) {
      const Sums right = sums(right_[at(v)]), left = sums(left_[at(v)]);
      Sums above = parts.upper, below = parts.lower;
      above += right;
      below += left;
      if (enters(v, above, below)) {
        parts.upper = above;
        parts.upper += own(v);
        v = left_[at(v)];
      } else {
        parts.lower = below;
        parts.lower += own(v);
        v = right_[at(v)];
      }
    }
    return parts;
  }

  // The item at which the running sum of measure(sums), a linear function, exceeds target, counted from the highest score down over
  // the items that `counts(item)` (an upper part), or from the lowest up over all. The measure is >= 0 on the items counted.
  template <class Measure, class Counts>
  std::int64_t find_from_top(double target, const Measure& measure, const Counts& counts) const {
    return find(target, measure, counts, right_, left_);
  }
  template <class Measure>
  std::int64_t find_from_bottom(double target, const Measure& measure) const {
    return find(target, measure, [](std::int64_t) { return true; }, left_, right_);
  }

 private:
  static constexpr std::int64_t kNone = -1;
  static std::size_t at(std::int64_t v) { return static_cast<std::size_t>(v); }

  template <class Measure, class Counts>
  std::int64_t find(double target, const Measure& measure, const Counts& counts, const std::vector<std::int64_t>& early,
                    const std::vector<std::int64_t>& late) const {
    std::int64_t last = root_;  // the last item counted on the way: where rounding ends a search
    for (std::int64_t v = root_; v != kNone;) {
      if (!counts(v)) {
        v = early[at(v)];
        continue;
      }
      last = v;
      const double before = measure(sums(early[at(v)]));
      if (early[at(v)] != kNone && target < before) {
        v = early[at(v)];
        continue;
      }
      target -= before + measure(own(v));
      if (target < 0.0) return v;
      v = late[at(v)];
    }
    return last;
  }

  Sums sums(std::int64_t v) const { return v == kNone ? Sums{} : total_[at(v)]; }
  Sums own(std::int64_t v) const;
  bool lower(std::int64_t a, std::int64_t b) const;  // a comes before b in rising order
  void pull(std::int64_t v);
  std::int64_t insert(std::int64_t tree, std::int64_t v);
  std::int64_t erase(std::int64_t tree, std::int64_t v);
  void split(std::int64_t tree, std::int64_t v, std::int64_t* left, std::int64_t* right);
  std::int64_t merge(std::int64_t left, std::int64_t right);

  std::int64_t root_ = kNone;
  std::vector<std::int64_t> left_, right_;
  std::vector<double> score_, mass_;
  std::vector<unsigned char> inside_;
  std::vector<Sums> total_;
};

}  // namespace leeward
