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

  explicit ScoreTree(std::int64_t size);  // numbers 0..size-1, none inside; size below 2^31

  bool inside(std::int64_t item) const { return place_[static_cast<std::size_t>(item)] != kNone && node_of(item).inside; }
  double score(std::int64_t item) const { return node_of(item).score; }
  double mass(std::int64_t item) const { return node_of(item).mass; }
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
    for (Place v = root_; v != kNone;) {
      const Node& node = at(v);
      Sums above = parts.upper, below = parts.lower;
      above += sums(node.right);
      below += sums(node.left);
      if (enters(static_cast<std::int64_t>(node.item), above, below)) {
        parts.upper = above;
        parts.upper += own(node);
        v = node.left;
      } else {
        parts.lower = below;
        parts.lower += own(node);
        v = node.right;
      }
    }
    return parts;
  }

  // The item at which the running sum of measure(sums), a linear function, exceeds target, counted from the highest score down over
  // the items that `counts(item)` (an upper part), or from the lowest up over all. The measure is >= 0 on the items counted.
  template <class Measure, class Counts>
  std::int64_t find_from_top(double target, const Measure& measure, const Counts& counts) const {
    return find(target, measure, counts, &Node::right, &Node::left);
  }
  template <class Measure>
  std::int64_t find_from_bottom(double target, const Measure& measure) const {
    return find(target, measure, [](std::int64_t) { return true; }, &Node::left, &Node::right);
  }

 private:
  using Place = std::int32_t;  // of a node; nodes stand in the order in which items were first set, close together
  static constexpr Place kNone = -1;
  struct Node {
    double score = 0, mass = 0;
    Sums total;  // of the subtree
    Place left = kNone, right = kNone;
    std::int32_t item = 0;
    std::uint32_t priority = 0;
    bool inside = false;
  };

  Node& at(Place v) { return nodes_[static_cast<std::size_t>(v)]; }
  const Node& at(Place v) const { return nodes_[static_cast<std::size_t>(v)]; }
  const Node& node_of(std::int64_t item) const { return at(place_[static_cast<std::size_t>(item)]); }

  template <class Measure, class Counts>
  std::int64_t find(double target, const Measure& measure, const Counts& counts, Place Node::*early, Place Node::*late) const {
    Place last = root_;  // the last item counted on the way: where rounding ends a search
    for (Place v = root_; v != kNone;) {
      const Node& node = at(v);
      if (!counts(static_cast<std::int64_t>(node.item))) {
        v = node.*early;
        continue;
      }
      last = v;
      const double before = measure(sums(node.*early));
      if (node.*early != kNone && target < before) {
        v = node.*early;
        continue;
      }
      target -= before + measure(own(node));
      if (target < 0.0) break;
      v = node.*late;
    }
    return at(last).item;
  }

  Sums sums(Place v) const { return v == kNone ? Sums{} : at(v).total; }
  static Sums own(const Node& node) {
    const double m = node.mass, s = node.score;
    return {m, m * s, m * s * s, s, m};
  }
  static bool lower(const Node& a, const Node& b);  // a comes before b in rising order
  static bool over(const Node& a, const Node& b);   // a is nearer to the root
  void pull(Node& node) const;
  Place insert(Place tree, Place v);
  Place erase(Place tree, Place v);
  void split(Place tree, const Node& by, Place* left, Place* right);
  Place merge(Place left, Place right);

  Place root_ = kNone;
  std::vector<Place> place_;  // of each item; kNone before it is set for the first time
  std::vector<Node> nodes_;
};

}  // namespace leeward
