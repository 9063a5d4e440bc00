// The scores of the last full batch, and its slopes where they cost no more, so that a gradient at the w of the last losses
// computes neither X w nor an exponential again.
//
// Scores serve every oracle over the matrix, slopes those with the same loss and labels.
// It belongs to the caller and may be shared by oracles over the same matrix. A thread that finds it in use computes for
// itself. w is compared bit by bit, hence results are the same with and without it.
#pragma once

#include <cstdint>
#include <cstring>
#include <mutex>
#include <vector>

#include "leeward/hd/scalar_loss.hpp"

namespace leeward {

class ScoreMemo {
 public:
  // Sole use of a memo, if it is free, for the length of a call.
  class Hold {
   public:
    explicit Hold(ScoreMemo* memo) : memo_(memo != nullptr && memo->guard_.try_lock() ? memo : nullptr) {}
    ~Hold() {
      if (memo_ != nullptr) memo_->guard_.unlock();
    }
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;

    // The scores at w, or null when they are not known.
    const double* find(const double* w, std::int64_t dim) const {
      if (memo_ == nullptr || !memo_->filled_ || memo_->w_.size() != static_cast<std::size_t>(dim)) return nullptr;
      return std::memcmp(memo_->w_.data(), w, memo_->w_.size() * sizeof(double)) == 0 ? memo_->scores_.data() : nullptr;
    }
    // The slopes of this loss at w, or null when they are not known.
    const double* find_slopes(const double* w, std::int64_t dim, const hd::LossSpec& loss, const double* labels) const {
      if (find(w, dim) == nullptr || memo_->labels_ == nullptr || memo_->labels_ != labels || memo_->loss_ != loss) return nullptr;
      return memo_->slopes_.data();
    }
    // Memory for `count` slopes of this loss at the w of the scores, kept with them; to be asked for after begin().
    double* begin_slopes(std::int64_t count, const hd::LossSpec& loss, const double* labels) const {
      if (memo_ == nullptr) return nullptr;
      memo_->slopes_.resize(static_cast<std::size_t>(count));
      memo_->loss_ = loss;
      memo_->labels_ = labels;
      return memo_->slopes_.data();
    }
    // Memory for `count` scores to be filled in, then kept by commit(w); null when the memo is in use elsewhere.
    double* begin(std::int64_t count) const {
      if (memo_ == nullptr) return nullptr;
      memo_->filled_ = false;
      memo_->labels_ = nullptr;
      memo_->scores_.resize(static_cast<std::size_t>(count));
      return memo_->scores_.data();
    }
    void commit(const double* w, std::int64_t dim) const {
      if (memo_ == nullptr) return;
      memo_->w_.assign(w, w + dim);
      memo_->filled_ = true;
    }

   private:
    ScoreMemo* memo_;
  };

 private:
  std::mutex guard_;
  std::vector<double> w_, scores_, slopes_;
  hd::LossSpec loss_;               // what the slopes belong to,
  const double* labels_ = nullptr;  // null without slopes
  bool filled_ = false;
};

}  // namespace leeward
