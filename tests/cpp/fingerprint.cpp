#include "fingerprint.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace fingerprint {
namespace {

std::vector<std::pair<std::string, std::function<void()>>>& sections() {
  static std::vector<std::pair<std::string, std::function<void()>>> list;
  return list;
}

// FNV-1a of the bytes.
void hash(const char* what, const void* data, std::size_t bytes) {
  std::vector<unsigned char> raw(bytes);
  if (bytes > 0) std::memcpy(raw.data(), data, bytes);
  std::uint64_t h = 0xcbf29ce484222325ULL;
  for (const unsigned char b : raw) h = (h ^ b) * 0x100000001b3ULL;
  std::printf("  %-32s %016llx\n", what, static_cast<unsigned long long>(h));
}

}  // namespace

Section::Section(const char* title, std::function<void()> body) { sections().emplace_back(title, std::move(body)); }

void print(const char* what, const double* x, std::int64_t n) { hash(what, x, static_cast<std::size_t>(n) * sizeof *x); }
void print(const char* what, const float* x, std::int64_t n) { hash(what, x, static_cast<std::size_t>(n) * sizeof *x); }
void print(const char* what, const std::int64_t* x, std::int64_t n) { hash(what, x, static_cast<std::size_t>(n) * sizeof *x); }

}  // namespace fingerprint

int main() {
  auto& list = fingerprint::sections();
  std::sort(list.begin(), list.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  for (const auto& [title, body] : list) {
    std::printf("%s\n", title.c_str());
    body();
  }
}
