#include "harness.hpp"

#include <atomic>
#include <cstdio>
#include <exception>
#include <utility>
#include <vector>

namespace harness {
namespace {

std::vector<std::pair<std::string, std::function<void()>>>& tests() {
  static std::vector<std::pair<std::string, std::function<void()>>> list;
  return list;
}

std::atomic<int> failures{0};

}  // namespace

Registered::Registered(const char* sentence, std::function<void()> body) { tests().emplace_back(sentence, std::move(body)); }

void check(bool holds, const char* expression, const char* file, int line) {
  if (holds) return;
  ++failures;
  std::fprintf(stderr, "%s:%d: does not hold: %s\n", file, line, expression);
}

}  // namespace harness

int main() {
  int failed = 0;
  for (const auto& [sentence, body] : harness::tests()) {
    const int before = harness::failures;
    try {
      body();
    } catch (const std::exception& error) {
      harness::check(false, error.what(), "unexpected exception", 0);
    }
    const bool passed = harness::failures == before;
    if (!passed) ++failed;
    std::printf("%s  %s\n", passed ? "pass" : "FAIL", sentence.c_str());
  }
  std::printf("%zu tests, %d failed\n", harness::tests().size(), failed);
  return failed == 0 && !harness::tests().empty() ? 0 : 1;
}
