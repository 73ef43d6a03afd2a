#include "image.hpp"

#include <algorithm>
#include <sstream>

namespace fake {

constexpr const char *beginning = "host-cuda-image";

std::string Image::text() const {
  std::ostringstream text;
  text << beginning << ' ' << element;
  for (const std::string &kernel : kernels) text << ' ' << kernel;
  if (!library.empty()) text << '\n' << library;
  return text.str();
}

std::optional<Image> Image::read(const char *text) {
  Image image;
  std::istringstream lines(text);
  std::string line, word;
  std::getline(lines, line);
  std::getline(lines, image.library);
  std::istringstream words(line);
  if (!(words >> word) || word != beginning || !(words >> image.element)) return {};
  while (words >> word) image.kernels.push_back(word);
  return image;
}

bool Image::has(const std::string &kernel) const {
  return std::find(kernels.begin(), kernels.end(), kernel) != kernels.end();
}

}  // namespace fake
