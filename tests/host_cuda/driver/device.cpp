#include "device.hpp"

#include <cstdlib>
#include <cstring>
#include <thread>

#include "settings.hpp"

namespace fake {

namespace {

// As on devices, so that no alignment which they would refuse goes unnoticed, nor one that they give is missed.
constexpr size_t alignment = 256;
constexpr int poison = 0xCD;

long long variable(const char *name, long long otherwise) {
  const char *text = getenv((std::string("HOST_CUDA_") + name).c_str());
  return text == nullptr ? otherwise : atoll(text);
}

// Made once and never taken down.
template <class T>
T &lasting() {
  static T &object = *new T;
  return object;
}

}  // namespace

const Settings &settings() {
  static const Settings read = [] {
    Settings settings;
    settings.devices = int(variable("DEVICES", 1));
    settings.version = int(variable("VERSION", 12080));
    settings.capability = int(variable("CAPABILITY", 80));
    settings.memory = size_t(variable("MEMORY", 2ll << 30));
    settings.seed = uint64_t(variable("SEED", 0));
    settings.delay_us = unsigned(variable("DELAY_US", 0));
    settings.fail_launch = uint64_t(variable("FAIL_LAUNCH", 0));
    settings.fail_code = int(variable("FAIL_CODE", LAUNCH_OUT_OF_RESOURCES));
    settings.lose = uint64_t(variable("LOSE", 0));
    settings.lose_device = int(variable("LOSE_DEVICE", 0));
    settings.lose_code = int(variable("LOSE_CODE", LAUNCH_FAILED));
    return settings;
  }();
  return read;
}

std::shared_ptr<Stream> Stream::open(Device &device) {
  std::shared_ptr<Stream> stream(new Stream(device));
  std::thread([stream] { stream->run(); }).detach();
  device.opened(stream);
  return stream;
}

void Stream::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return closed_ || !queued_.empty(); });
    if (queued_.empty()) return;
    const Work work = std::move(queued_.front());
    queued_.pop_front();
    busy_ = true;
    lock.unlock();
    // Work queued on a broken device ends without being done.
    if (work.always || device.broken() == SUCCESS) work.act(*this);
    lock.lock();
    busy_ = false;
    changed_.notify_all();
  }
}

void Stream::queue(Work work) {
  std::lock_guard lock(mutex_);
  if (graph_ != nullptr) {
    graph_->work.push_back(std::move(work));
    return;
  }
  queued_.push_back(std::move(work));
  changed_.notify_all();
}

void Stream::queue(const Graph &graph) {
  std::lock_guard lock(mutex_);
  queued_.insert(queued_.end(), graph.work.begin(), graph.work.end());
  changed_.notify_all();
}

bool Stream::idle() {
  std::lock_guard lock(mutex_);
  return queued_.empty() && !busy_;
}

void Stream::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return queued_.empty() && !busy_; });
}

void Stream::close() {
  std::lock_guard lock(mutex_);
  closed_ = true;
  changed_.notify_all();
}

void Stream::capture() {
  std::lock_guard lock(mutex_);
  graph_ = std::make_unique<Graph>();
  spoilt_ = false;
}

bool Stream::capturing() {
  std::lock_guard lock(mutex_);
  return graph_ != nullptr;
}

void Stream::spoil() {
  std::lock_guard lock(mutex_);
  spoilt_ = true;
}

std::unique_ptr<Graph> Stream::captured() {
  std::lock_guard lock(mutex_);
  auto graph = std::move(graph_);
  return spoilt_ ? nullptr : std::move(graph);
}

void *Memory::take(Device *device, size_t bytes) {
  std::lock_guard lock(mutex_);
  size_t taken = 0;
  for (const auto &[address, piece] : pieces_) taken += piece.device == device ? piece.bytes : 0;
  if (device != nullptr && bytes > settings().memory - taken) return nullptr;
  void *memory = nullptr;
  if (posix_memalign(&memory, alignment, bytes) != 0) return nullptr;
  memset(memory, poison, bytes);
  pieces_[uintptr_t(memory)] = {bytes, device};
  return memory;
}

bool Memory::give_back(void *memory, Device *device) {
  std::lock_guard lock(mutex_);
  const auto piece = pieces_.find(uintptr_t(memory));
  if (piece == pieces_.end() || piece->second.device != device) return false;
  memset(memory, poison, piece->second.bytes);
  pieces_.erase(piece);
  free(memory);
  return true;
}

bool Memory::holds(const void *memory, size_t bytes, const Device *device) {
  std::lock_guard lock(mutex_);
  auto piece = pieces_.upper_bound(uintptr_t(memory));
  if (piece == pieces_.begin()) return false;
  --piece;
  const size_t before = uintptr_t(memory) - piece->first;
  return piece->second.device == device && before <= piece->second.bytes && bytes <= piece->second.bytes - before;
}

size_t Memory::taken(const Device *device) {
  std::lock_guard lock(mutex_);
  size_t taken = 0;
  for (const auto &[address, piece] : pieces_) taken += piece.device == device ? piece.bytes : 0;
  return taken;
}

Result Device::broken() {
  std::lock_guard lock(mutex_);
  return broken_;
}

void Device::break_down(Result error) {
  std::lock_guard lock(mutex_);
  if (broken_ == SUCCESS) broken_ = error;
}

void Device::opened(const std::shared_ptr<Stream> &stream) {
  std::lock_guard lock(mutex_);
  streams_.push_back(stream);
}

std::vector<std::shared_ptr<Stream>> Device::streams() {
  std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<Stream>> open;
  for (const auto &stream : streams_) {
    if (auto alive = stream.lock()) open.push_back(std::move(alive));
  }
  return open;
}

uint64_t Device::count_kernel() {
  std::lock_guard lock(mutex_);
  return ++kernels_;
}

std::vector<std::unique_ptr<Device>> &devices() {
  static auto &all = []() -> auto & {
    auto &devices = lasting<std::vector<std::unique_ptr<Device>>>();
    for (int number = 0; number < settings().devices; number++) devices.push_back(std::make_unique<Device>(number));
    return devices;
  }();
  return all;
}

Memory &memory() { return lasting<Memory>(); }
Handles<Stream> &streams() { return lasting<Handles<Stream>>(); }

Device *&current() {
  static thread_local Device *device = nullptr;
  return device;
}

Result ready() { return current() == nullptr ? INVALID_CONTEXT : current()->broken(); }

}  // namespace fake
