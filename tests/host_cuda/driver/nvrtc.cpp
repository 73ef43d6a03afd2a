// The functions of NVRTC. Kernels whose only constant is their element are in the process, and are not compiled; but what was
// asked for is looked at: the headers that the source includes, the variant, the architecture. A source with other constants is
// compiled by the host's compiler, into a library that is kept for the next one who wants it.
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "device.hpp"
#include "image.hpp"

using fake::Handles;
using fake::Image;

namespace {

enum Status : int {
  OK = 0,
  INVALID_INPUT = 3,
  INVALID_PROGRAM = 4,
  INVALID_OPTION = 5,
  COMPILATION = 6,
};

struct Program {
  std::string source, name;
  std::vector<std::string> headers, texts;
  std::string log, image;
  // Whether the image is machine code, or text that the driver translates.
  bool machine = false;
};

Handles<Program> &programs() {
  static auto &all = *new Handles<Program>;
  return all;
}

// What stands between a beginning and the next end, wherever they are in a text.
std::vector<std::string> between(const std::string &text, const std::string &beginning, char end) {
  std::vector<std::string> found;
  for (size_t at = text.find(beginning); at != std::string::npos; at = text.find(beginning, at)) {
    at += beginning.size();
    found.push_back(text.substr(at, text.find(end, at) - at));
  }
  return found;
}

// The rest of an option behind its beginning; nothing if it is another option.
std::optional<std::string> value(const std::string &option, const std::string &beginning) {
  if (option.compare(0, beginning.size(), beginning) != 0) return {};
  return option.substr(beginning.size());
}

bool has(const std::vector<std::string> &all, const std::string &one) {
  for (const std::string &each : all) {
    if (each == one) return true;
  }
  return false;
}

void write(const std::string &path, const std::string &text) { std::ofstream(path) << text; }

// Compiles a source with constants, as options, under a variant's number of its own, which it gives with the library. Returns
// whether that went well.
bool compile(const Program &program, const std::string &constants, Image &image) {
  std::string all = constants + program.source;
  for (const std::string &text : program.texts) all += text;
  const size_t hash = std::hash<std::string>()(all);
  // Not one of the elements' numbers.
  image.element = int(hash & 0x3fffffff) + 100;
  char name[32];
  snprintf(name, sizeof name, "/%016zx", hash);
  // What the tests' builder says of the compiler and of the folder for what is built.
  const std::string folder = HOST_CUDA_COMPILED, own = folder + name + "." + std::to_string(getpid());
  image.library = folder + name + ".so";
  struct stat found;
  if (stat(image.library.c_str(), &found) == 0) return true;
  mkdir(folder.c_str(), 0777);
  mkdir(own.c_str(), 0777);
  for (size_t header = 0; header < program.headers.size(); header++) {
    write(own + "/" + program.headers[header], program.texts[header]);
  }
  write(own + "/source.cu", program.source);
  const std::string command = "cd '" + own + "' && " + HOST_CUDA_COMPILE + constants + " -DHOST_CUDA_VARIANT=" +
                              std::to_string(image.element) + " -x c++ source.cu -x none -o library.so " + HOST_CUDA_LINK;
  const bool compiled = system(command.c_str()) == 0;
  // Whole, or not there; of several processes the last one's stays, which is as good as the others'.
  const bool there = compiled && rename((own + "/library.so").c_str(), image.library.c_str()) == 0;
  for (const std::string &header : program.headers) unlink((own + "/" + header).c_str());
  unlink((own + "/source.cu").c_str());
  rmdir(own.c_str());
  return there;
}

// Gives a text of the program's to one of the pairs of functions that ask for its size and for itself.
template <class Text>
Status size_of(void *handle, size_t *size, Text text) {
  const auto program = programs().get(handle);
  if (program == nullptr) return INVALID_PROGRAM;
  *size = text(*program).size() + 1;
  return OK;
}

template <class Text>
Status copy_of(void *handle, char *to, Text text) {
  const auto program = programs().get(handle);
  if (program == nullptr) return INVALID_PROGRAM;
  const std::string copied = text(*program);
  memcpy(to, copied.c_str(), copied.size() + 1);
  return OK;
}

std::string log_of(const Program &program) { return program.log; }
std::string machine_code_of(const Program &program) { return program.machine ? program.image : ""; }
std::string text_of(const Program &program) { return program.machine ? "" : program.image; }

}  // namespace

#define API extern "C" __attribute__((visibility("default"))) Status

// A version that no NVRTC has, so that caches of compiled kernels keep the two apart.
API nvrtcVersion(int *major, int *minor) {
  *major = 12;
  *minor = 99;
  return OK;
}

API nvrtcGetNumSupportedArchs(int *count) {
  *count = 3;
  return OK;
}

API nvrtcGetSupportedArchs(int *architectures) {
  const int known[] = {70, 80, 90};
  memcpy(architectures, known, sizeof known);
  return OK;
}

API nvrtcCreateProgram(void **handle, const char *source, const char *name, int headers, const char *const *texts,
                       const char *const *names) {
  if (source == nullptr || (headers > 0 && (texts == nullptr || names == nullptr))) return INVALID_INPUT;
  auto program = std::make_shared<Program>();
  program->source = source;
  program->name = name == nullptr ? "default_program" : name;
  program->headers.assign(names, names + headers);
  program->texts.assign(texts, texts + headers);
  *handle = programs().add(std::move(program));
  return OK;
}

API nvrtcCompileProgram(void *handle, int count, const char *const *options) {
  const auto program = programs().get(handle);
  if (program == nullptr) return INVALID_PROGRAM;
  Image image;
  image.element = -1;
  std::string constants;
  bool others = false;
  for (int number = 0; number < count; number++) {
    const std::string option = options[number];
    if (value(option, "-D")) constants += " " + option;
    if (const auto element = value(option, "-DELEMENT=")) {
      image.element = std::stoi(*element);
    } else if (const auto architecture = value(option, "--gpu-architecture=")) {
      program->machine = value(*architecture, "sm_").has_value();
    } else if (value(option, "-D")) {
      others = true;
    } else if (!value(option, "--")) {
      program->log = "unknown option " + option;
      return INVALID_OPTION;
    }
  }
  for (const std::string &header : between(program->source, "#include \"", '"')) {
    if (has(program->headers, header)) continue;
    program->log = program->name + ": cannot open source file \"" + header + "\"";
    return COMPILATION;
  }
  if (image.element < 0) {
    program->log = program->name + ": ELEMENT is not defined";
    return COMPILATION;
  }
  if (others && !compile(*program, constants, image)) {
    program->log = program->name + ": the host's compiler refuses it";
    return COMPILATION;
  }
  image.kernels = between(program->source, "EXPORT_KERNEL(", ')');
  program->image = image.text();
  return OK;
}

API nvrtcGetProgramLogSize(void *handle, size_t *size) { return size_of(handle, size, log_of); }
API nvrtcGetProgramLog(void *handle, char *log) { return copy_of(handle, log, log_of); }
API nvrtcGetCUBINSize(void *handle, size_t *size) { return size_of(handle, size, machine_code_of); }
API nvrtcGetCUBIN(void *handle, char *image) { return copy_of(handle, image, machine_code_of); }
API nvrtcGetPTXSize(void *handle, size_t *size) { return size_of(handle, size, text_of); }
API nvrtcGetPTX(void *handle, char *image) { return copy_of(handle, image, text_of); }

API nvrtcDestroyProgram(void **handle) {
  if (programs().remove(*handle) == nullptr) return INVALID_PROGRAM;
  *handle = nullptr;
  return OK;
}

extern "C" __attribute__((visibility("default"))) const char *nvrtcGetErrorString(int status) {
  switch (status) {
    case OK:
      return "NVRTC_SUCCESS";
    case INVALID_INPUT:
      return "NVRTC_ERROR_INVALID_INPUT";
    case INVALID_PROGRAM:
      return "NVRTC_ERROR_INVALID_PROGRAM";
    case INVALID_OPTION:
      return "NVRTC_ERROR_INVALID_OPTION";
    case COMPILATION:
      return "NVRTC_ERROR_COMPILATION";
    default:
      return "NVRTC_ERROR unknown";
  }
}
