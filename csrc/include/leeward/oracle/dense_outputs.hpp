// Dense rows against several outputs at once (softmax): each entry of a row is read and converted once for a group of outputs,
// where one output after the other would read it again and wait for memory.
#pragma once

#include <cstdint>

#include "leeward/core/views.hpp"

namespace leeward {

struct Rows;

// out[k * outputs + c] = x_{rows[k]} . w_c + biases[c] (biases null: 0), w_c = w + c * cols. The bits of one row and output do
// not depend on the others.
template <class T>
void dense_output_dots(DenseView<T> x, Rows rows, const double* w, std::int64_t outputs, const double* biases, double* out);

// out[c * cols .. ) += sum_k r[k * outputs + c] x_{rows[k]} for each output c.
template <class T>
void dense_output_sums(DenseView<T> x, Rows rows, const double* r, std::int64_t outputs, double* out);

}  // namespace leeward
