#include "leeward/core/score_tree.hpp"

#include <stdexcept>

namespace leeward {
namespace {

// A fixed scramble of the item's number (the finaliser of SplitMix64).
std::uint32_t scramble(std::int64_t item) {
  std::uint64_t z = static_cast<std::uint64_t>(item) + 0x9e3779b97f4a7c15ULL;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return static_cast<std::uint32_t>((z ^ (z >> 31)) >> 32);
}

}  // namespace

ScoreTree::ScoreTree(std::int64_t size) {
  if (size < 0 || size >= (std::int64_t{1} << 31)) throw std::invalid_argument("a score tree holds fewer than 2**31 items");
  place_.assign(static_cast<std::size_t>(size), kNone);
}

bool ScoreTree::lower(const Node& a, const Node& b) { return a.score < b.score || (a.score == b.score && a.item < b.item); }

bool ScoreTree::over(const Node& a, const Node& b) {
  return a.priority > b.priority || (a.priority == b.priority && a.item < b.item);
}

void ScoreTree::pull(Node& node) const {
  Sums s = sums(node.left);
  s += own(node);
  s += sums(node.right);
  node.total = s;
}

void ScoreTree::split(Place tree, const Node& by, Place* left, Place* right) {
  if (tree == kNone) {
    *left = *right = kNone;
    return;
  }
  Node& node = at(tree);
  if (lower(node, by)) {
    split(node.right, by, &node.right, right);
    *left = tree;
  } else {
    split(node.left, by, left, &node.left);
    *right = tree;
  }
  pull(node);
}

ScoreTree::Place ScoreTree::merge(Place left, Place right) {
  if (left == kNone) return right;
  if (right == kNone) return left;
  Node &a = at(left), &b = at(right);
  if (over(a, b)) {
    a.right = merge(a.right, right);
    pull(a);
    return left;
  }
  b.left = merge(left, b.left);
  pull(b);
  return right;
}

ScoreTree::Place ScoreTree::insert(Place tree, Place v) {
  Node& node = at(v);
  if (tree == kNone || over(node, at(tree))) {
    Place left = kNone, right = kNone;
    split(tree, node, &left, &right);
    node.left = left;
    node.right = right;
    pull(node);
    return v;
  }
  Node& root = at(tree);
  Place& child = lower(node, root) ? root.left : root.right;
  child = insert(child, v);
  pull(root);
  return tree;
}

ScoreTree::Place ScoreTree::erase(Place tree, Place v) {
  if (tree == v) return merge(at(v).left, at(v).right);
  Node& root = at(tree);
  Place& child = lower(at(v), root) ? root.left : root.right;
  child = erase(child, v);
  pull(root);
  return tree;
}

void ScoreTree::set(std::int64_t item, double score, double mass) {
  Place& place = place_[static_cast<std::size_t>(item)];
  if (place == kNone) {
    place = static_cast<Place>(nodes_.size());
    nodes_.emplace_back();
    nodes_.back().item = static_cast<std::int32_t>(item);
    nodes_.back().priority = scramble(item);
  } else if (at(place).inside) {
    root_ = erase(root_, place);
  }
  Node& node = at(place);
  node.score = score;
  node.mass = mass;
  node.left = node.right = kNone;
  node.inside = true;
  root_ = insert(root_, place);
}

void ScoreTree::remove(std::int64_t item) {
  if (!inside(item)) return;
  const Place place = place_[static_cast<std::size_t>(item)];
  root_ = erase(root_, place);
  at(place).inside = false;
}

void ScoreTree::clear() {
  root_ = kNone;
  nodes_.clear();
  place_.assign(place_.size(), kNone);
}

}  // namespace leeward
