// The functions of cuBLAS that the project calls: handles, and products in the plainest way.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "device.hpp"

using namespace fake;

namespace {

enum Status : int {
  OK = 0,
  NOT_INITIALIZED = 1,
  INVALID = 7,
  UNSUPPORTED = 15,
};

// Of cuBLAS's header.
enum Operation : int { PLAIN = 0, TRANSPOSED = 1 };
enum Type : int { FLOAT = 0, HALF = 2, BFLOAT = 14 };
enum Compute : int { IN_FLOAT = 68, IN_TF32 = 77 };

struct Handle {
  Device &device;
  std::shared_ptr<Stream> stream;
};

Handles<Handle> &handles() {
  static auto &all = *new Handles<Handle>;
  return all;
}

float of_bits(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

float of_half(uint16_t bits) {
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  const float magnitude = exponent == 31  ? fraction == 0 ? INFINITY : NAN
                          : exponent == 0 ? std::ldexp(float(fraction), -24)
                                          : std::ldexp(float(fraction + 1024), exponent - 25);
  return bits >> 15 ? -magnitude : magnitude;
}

// A number with the ten bits behind the point that TF32 has, rounded to the nearest.
float as_tf32(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  if (!std::isfinite(value)) return value;
  return of_bits((bits + 0xfff + (bits >> 13 & 1)) & ~0x1fffu);
}

// A matrix in memory, column by column.
struct Matrix {
  const void *numbers;
  Type type;
  size_t stride;
  bool transposed, tf32;

  float at(size_t row, size_t column) const {
    if (transposed) std::swap(row, column);
    const size_t place = row + column * stride;
    switch (type) {
      case HALF:
        return of_half(static_cast<const uint16_t *>(numbers)[place]);
      case BFLOAT:
        return of_bits(uint32_t(static_cast<const uint16_t *>(numbers)[place]) << 16);
      default: {
        const float value = static_cast<const float *>(numbers)[place];
        return tf32 ? as_tf32(value) : value;
      }
    }
  }

  size_t element() const { return type == FLOAT ? 4 : 2; }

  // Its numbers, row by row.
  std::vector<float> rows(size_t rows, size_t columns) const {
    std::vector<float> all;
    all.reserve(rows * columns);
    for (size_t row = 0; row < rows; row++) {
      for (size_t column = 0; column < columns; column++) all.push_back(at(row, column));
    }
    return all;
  }
};

struct Product {
  Matrix a, b;
  float *c;
  size_t rows, columns, inner, stride;
  float alpha, beta;

  void run() const {
    Matrix b_transposed = b;
    b_transposed.transposed = !b.transposed;
    const std::vector<float> left = a.rows(rows, inner), right = b_transposed.rows(columns, inner);
    for (size_t column = 0; column < columns; column++) {
      for (size_t row = 0; row < rows; row++) {
        float sum = 0;
        for (size_t place = 0; place < inner; place++) sum += left[row * inner + place] * right[column * inner + place];
        float &result = c[row + column * stride];
        result = alpha * sum + (beta == 0 ? 0 : beta * result);
      }
    }
  }
};

// The bytes from the first number of a matrix to its last.
size_t extent(size_t rows, size_t columns, size_t stride, size_t element) {
  return rows == 0 || columns == 0 ? 0 : ((columns - 1) * stride + rows) * element;
}

}  // namespace

#define API extern "C" __attribute__((visibility("default"))) Status

API cublasGetProperty(int which, int *value) {
  const int version[] = {12, 99, 0};
  if (which < 0 || which > 2) return INVALID;
  *value = version[which];
  return OK;
}

API cublasCreate_v2(void **handle) {
  if (ready() != SUCCESS) return NOT_INITIALIZED;
  *handle = handles().add(std::make_shared<Handle>(Handle{*current(), nullptr}));
  return OK;
}

API cublasDestroy_v2(void *handle) {
  const auto found = handles().remove(handle);
  if (found == nullptr) return NOT_INITIALIZED;
  if (current() == &found->device) return OK;
  // A program has no use for the status.
  fprintf(stderr, "host CUDA: a handle is destroyed in the context of another device\n");
  abort();
}

API cublasSetStream_v2(void *handle, void *stream_handle) {
  const auto found = handles().get(handle);
  if (found == nullptr) return NOT_INITIALIZED;
  const auto stream = streams().get(stream_handle);
  if (stream == nullptr || &stream->device != &found->device) return INVALID;
  found->stream = stream;
  return OK;
}

API cublasSetWorkspace_v2(void *handle, void *workspace, size_t bytes) {
  const auto found = handles().get(handle);
  if (found == nullptr) return NOT_INITIALIZED;
  return memory().holds(workspace, bytes, &found->device) && uintptr_t(workspace) % 256 == 0 ? OK : INVALID;
}

API cublasSetMathMode(void *handle, int) { return handles().get(handle) == nullptr ? NOT_INITIALIZED : OK; }

API cublasGemmEx(void *handle, int operation_a, int operation_b, int m, int n, int k, const void *alpha, const void *a,
                 int type_a, int lda, const void *b, int type_b, int ldb, const void *beta, void *c, int type_c, int ldc,
                 int compute, int) {
  const auto found = handles().get(handle);
  if (found == nullptr || found->stream == nullptr) return NOT_INITIALIZED;
  if (m < 0 || n < 0 || k < 0 || operation_a < PLAIN || operation_a > TRANSPOSED || operation_b < PLAIN ||
      operation_b > TRANSPOSED) {
    return INVALID;
  }
  const bool known = type_a == FLOAT || type_a == HALF || type_a == BFLOAT;
  if (!known || type_a != type_b || type_c != FLOAT) return UNSUPPORTED;
  if (compute != IN_FLOAT && !(compute == IN_TF32 && type_a == FLOAT)) return UNSUPPORTED;
  const auto matrix = [&](const void *numbers, int operation, int stride) {
    return Matrix{numbers, Type(type_a), size_t(stride), operation == TRANSPOSED, compute == IN_TF32};
  };
  const auto factor = [](const void *pointer) { return *static_cast<const float *>(pointer); };
  const Product product{matrix(a, operation_a, lda),
                        matrix(b, operation_b, ldb),
                        static_cast<float *>(c),
                        size_t(m),
                        size_t(n),
                        size_t(k),
                        size_t(ldc),
                        factor(alpha),
                        factor(beta)};

  // Rows of the matrices as they lie in memory.
  const int rows_a = operation_a == PLAIN ? m : k, columns_a = operation_a == PLAIN ? k : m;
  const int rows_b = operation_b == PLAIN ? k : n, columns_b = operation_b == PLAIN ? n : k;
  if (lda < std::max(1, rows_a) || ldb < std::max(1, rows_b) || ldc < std::max(1, m)) return INVALID;
  const auto there = [&](const void *numbers, int rows, int columns, int stride, size_t element) {
    const size_t bytes = extent(size_t(rows), size_t(columns), size_t(stride), element);
    return memory().holds(numbers, bytes, &found->device) && uintptr_t(numbers) % element == 0;
  };
  // The library does not look; a product that reads or writes elsewhere would be a kernel's illegal access.
  if (!there(a, rows_a, columns_a, lda, product.a.element()) || !there(b, rows_b, columns_b, ldb, product.b.element()) ||
      !there(c, m, n, ldc, sizeof(float))) {
    return INVALID;
  }
  found->stream->queue({[product](Stream &) { product.run(); }});
  return OK;
}

API cublasGemmStridedBatchedEx(void *handle, int operation_a, int operation_b, int m, int n, int k, const void *alpha,
                               const void *a, int type_a, int lda, long long stride_a, const void *b, int type_b, int ldb,
                               long long stride_b, const void *beta, void *c, int type_c, int ldc, long long stride_c,
                               int count, int compute, int algorithm) {
  if (count < 0 || stride_a < 0 || stride_b < 0 || stride_c < 0) return INVALID;
  const auto of = [](const void *numbers, long long stride, int type, int place) {
    return static_cast<const char *>(numbers) + size_t(stride) * size_t(place) * (type == FLOAT ? 4 : 2);
  };
  for (int place = 0; place < count; place++) {
    const Status status = cublasGemmEx(
        handle, operation_a, operation_b, m, n, k, alpha, of(a, stride_a, type_a, place), type_a, lda,
        of(b, stride_b, type_b, place), type_b, ldb, beta, const_cast<char *>(of(c, stride_c, type_c, place)), type_c, ldc,
        compute, algorithm);
    if (status != OK) return status;
  }
  return OK;
}

extern "C" __attribute__((visibility("default"))) const char *cublasGetStatusString(int status) {
  switch (status) {
    case OK:
      return "success";
    case NOT_INITIALIZED:
      return "the library was not initialized";
    case INVALID:
      return "an unsupported value or parameter was passed to the function";
    case UNSUPPORTED:
      return "the functionality requested is not supported";
    default:
      return "unknown status";
  }
}
