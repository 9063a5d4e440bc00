// A test is a named block that fails by CHECK; each executable runs all of its own and says which failed.
#pragma once

#include <functional>
#include <string>

namespace harness {

struct Registered {
  Registered(const char* sentence, std::function<void()> body);
};

void check(bool holds, const char* expression, const char* file, int line);

}  // namespace harness

#define HARNESS_JOIN2(a, b) a##b
#define HARNESS_JOIN(a, b) HARNESS_JOIN2(a, b)
#define TEST(sentence)                                                                                       \
  static void HARNESS_JOIN(body_, __LINE__)();                                                               \
  static const harness::Registered HARNESS_JOIN(entry_, __LINE__)(sentence, &HARNESS_JOIN(body_, __LINE__)); \
  static void HARNESS_JOIN(body_, __LINE__)()

#define CHECK(expression) harness::check(static_cast<bool>(expression), #expression, __FILE__, __LINE__)
