// What the compiler gives and the driver takes: not code, which is in the process already or in a library, but which kernels
// there would be.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace fake {

struct Image {
  // The variant that the source was compiled for, as in -DELEMENT=…
  int element = 0;
  std::vector<std::string> kernels;
  // The library with the kernels, of a source that was compiled with constants of its own.
  std::string library;

  std::string text() const;
  // Reads the text of an image; nothing if it is none.
  static std::optional<Image> read(const char *text);
  bool has(const std::string &kernel) const;
};

}  // namespace fake
