// Scratch memory that is taken and given back like a stack and kept between calls, so loops allocate nothing and large
// calls do not fault fresh pages. Not shared between threads: whoever runs owns one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <vector>

namespace leeward {

class Workspace {
 public:
  Workspace() = default;
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;

  // Gives back everything taken since it was made, when it goes out of scope.
  class Scope {
   public:
    explicit Scope(Workspace& w) : w_(w), chunk_(w.chunk_), used_(w.used_) {}
    ~Scope() {
      w_.chunk_ = chunk_;
      w_.used_ = used_;
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Workspace& w_;
    std::size_t chunk_, used_;
  };

  // n uninitialised elements, 64-byte aligned, valid until the enclosing Scope ends.
  template <class T>
  T* take(std::int64_t n) {
    return static_cast<T*>(bytes(static_cast<std::size_t>(n > 0 ? n : 0) * sizeof(T)));
  }

  // Bytes held at present, used or not.
  std::size_t capacity() const {
    std::size_t total = 0;
    for (const Chunk& c : chunks_) total += c.size;
    return total;
  }

  // Frees all memory; nothing may be in use.
  void release() {
    chunks_.clear();
    chunk_ = used_ = 0;
  }

 private:
  static constexpr std::size_t kAlign = 64;
  struct Free {
    void operator()(std::byte* p) const { ::operator delete(p, std::align_val_t{kAlign}); }
  };
  struct Chunk {
    std::unique_ptr<std::byte, Free> memory;
    std::size_t size;
  };

  void* bytes(std::size_t size) {
    size = (size + kAlign - 1) / kAlign * kAlign;
    while (chunk_ < chunks_.size() && used_ + size > chunks_[chunk_].size) {
      ++chunk_;
      used_ = 0;
    }
    if (chunk_ == chunks_.size()) {
      std::size_t wanted = chunks_.empty() ? std::size_t{1} << 16 : 2 * chunks_.back().size;
      if (wanted < size) wanted = size;
      auto* p = static_cast<std::byte*>(::operator new(wanted, std::align_val_t{kAlign}));
      chunks_.push_back({std::unique_ptr<std::byte, Free>(p), wanted});
      used_ = 0;
    }
    void* p = chunks_[chunk_].memory.get() + used_;
    used_ += size;
    return p;
  }

  std::vector<Chunk> chunks_;
  std::size_t chunk_ = 0, used_ = 0;
};

}  // namespace leeward
