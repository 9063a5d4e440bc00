#include "leeward/core/score_tree.hpp"

namespace leeward {
namespace {

// A fixed scramble of the item's number (the finaliser of SplitMix64).
std::uint64_t priority(std::int64_t item) {
  std::uint64_t z = static_cast<std::uint64_t>(item) + 0x9e3779b97f4a7c15ULL;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

}  // namespace

ScoreTree::ScoreTree(std::int64_t size)
    : left_(at(size), kNone), right_(at(size), kNone), score_(at(size), 0.0), mass_(at(size), 0.0), inside_(at(size), 0),
      total_(at(size)) {}

ScoreTree::Sums ScoreTree::own(std::int64_t v) const {
  const double m = mass_[at(v)], s = score_[at(v)];
  return {m, m * s, m * s * s, s, m};
}

bool ScoreTree::lower(std::int64_t a, std::int64_t b) const {
  const double x = score_[at(a)], y = score_[at(b)];
  return x < y || (x == y && a < b);
}

void ScoreTree::pull(std::int64_t v) {
  Sums s = sums(left_[at(v)]);
  s += own(v);
  s += sums(right_[at(v)]);
  total_[at(v)] = s;
}

void ScoreTree::split(std::int64_t tree, std::int64_t v, std::int64_t* left, std::int64_t* right) {
  if (tree == kNone) {
    *left = *right = kNone;
  } else if (lower(tree, v)) {
    split(right_[at(tree)], v, &right_[at(tree)], right);
    *left = tree;
    pull(tree);
  } else {
    split(left_[at(tree)], v, left, &left_[at(tree)]);
    *right = tree;
    pull(tree);
  }
}

std::int64_t ScoreTree::merge(std::int64_t left, std::int64_t right) {
  if (left == kNone) return right;
  if (right == kNone) return left;
  if (priority(left) > priority(right)) {
    right_[at(left)] = merge(right_[at(left)], right);
    pull(left);
    return left;
  }
  left_[at(right)] = merge(left, left_[at(right)]);
  pull(right);
  return right;
}

std::int64_t ScoreTree::insert(std::int64_t tree, std::int64_t v) {
  if (tree == kNone || priority(v) > priority(tree)) {
    split(tree, v, &left_[at(v)], &right_[at(v)]);
    pull(v);
    return v;
  }
  std::int64_t& child = lower(v, tree) ? left_[at(tree)] : right_[at(tree)];
  child = insert(child, v);
  pull(tree);
  return tree;
}

std::int64_t ScoreTree::erase(std::int64_t tree, std::int64_t v) {
  if (tree == v) return merge(left_[at(v)], right_[at(v)]);
  std::int64_t& child = lower(v, tree) ? left_[at(tree)] : right_[at(tree)];
  child = erase(child, v);
  pull(tree);
  return tree;
}

void ScoreTree::set(std::int64_t item, double score, double mass) {
  remove(item);
  score_[at(item)] = score;
  mass_[at(item)] = mass;
  inside_[at(item)] = 1;
  left_[at(item)] = right_[at(item)] = kNone;
  root_ = insert(root_, item);
}

void ScoreTree::remove(std::int64_t item) {
  if (!inside(item)) return;
  root_ = erase(root_, item);
  inside_[at(item)] = 0;
}

void ScoreTree::clear() {
  root_ = kNone;
  inside_.assign(inside_.size(), 0);
}

}  // namespace leeward
