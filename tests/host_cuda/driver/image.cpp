#include "image.hpp"

#include <algorithm>
#include <sstream>

namespace fake {

constexpr const char *beginning = "host-cuda-image";

std::string Image::text() const {
  std::ostringstream text;
  text << beginning << ' ' << element;
  for (const std::string &kernel : kernels) text << ' ' << kernel;
  return text.str();
}

std::optional<Image> Image::read(const char *text) {
  std::istringstream words(text);
  std::string word;
  Image image;
  if (!(words >> word) || word != beginning || !(words >> image.element)) return {};
  while (words >> word) image.kernels.push_back(word);
  return image;
}

bool Image::has(const std::string &kernel) const {
  return std::find(kernels.begin(), kernels.end(), kernel) != kernels.end();
}

}  // namespace fake
