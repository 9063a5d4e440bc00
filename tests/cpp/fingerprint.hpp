// Hashes of bits, printed line by line: two builds that print the same compute the same.
// A file fingerprint_*.cpp adds lines by `static const fingerprint::Section name("title", [] { ... print(...); });`.
#pragma once

#include <cstdint>
#include <functional>

namespace fingerprint {

struct Section {
  Section(const char* title, std::function<void()> body);
};

void print(const char* what, const double* x, std::int64_t n);
void print(const char* what, const float* x, std::int64_t n);
void print(const char* what, const std::int64_t* x, std::int64_t n);

}  // namespace fingerprint
