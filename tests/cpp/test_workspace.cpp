#include <cstdint>

#include "harness.hpp"
#include "leeward/core/workspace.hpp"

using namespace leeward;

TEST("memory is 64-byte aligned and does not overlap") {
  Workspace workspace;
  const Workspace::Scope scope(workspace);
  auto* a = workspace.take<double>(3);
  auto* b = workspace.take<float>(5);
  auto* c = workspace.take<double>(1 << 20);
  for (const void* p : {static_cast<void*>(a), static_cast<void*>(b), static_cast<void*>(c)})
    CHECK(reinterpret_cast<std::uintptr_t>(p) % 64 == 0);
  for (int i = 0; i < 3; ++i) a[i] = 1.0;
  for (int i = 0; i < 5; ++i) b[i] = 2.0F;
  c[0] = c[(1 << 20) - 1] = 3.0;
  CHECK(a[2] == 1.0 && b[0] == 2.0F && b[4] == 2.0F);
}

TEST("a scope gives back what was taken in it and no more") {
  Workspace workspace;
  const Workspace::Scope outer(workspace);
  auto* kept = workspace.take<double>(10);
  kept[9] = 7.0;
  double* first = nullptr;
  {
    const Workspace::Scope inner(workspace);
    first = workspace.take<double>(100);
    first[0] = 1.0;
  }
  const Workspace::Scope again(workspace);
  CHECK(workspace.take<double>(100) == first);
  CHECK(kept[9] == 7.0);
}

TEST("repeated use of one size allocates once") {
  Workspace workspace;
  std::size_t capacity = 0;
  for (int round = 0; round < 5; ++round) {
    const Workspace::Scope scope(workspace);
    workspace.take<double>(1 << 18)[0] = 1.0;
    workspace.take<double>(1000)[0] = 1.0;
    if (round == 0) capacity = workspace.capacity();
    CHECK(workspace.capacity() == capacity);
  }
  workspace.release();
  CHECK(workspace.capacity() == 0);
}
