#include "launch.hpp"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "fiber.hpp"

namespace host_cuda {

namespace {

// Bounds the memory of a launch: blocks begin as others end, as on a device. A block always fits.
#ifdef HOST_CUDA_TSAN
constexpr size_t threads_at_once = 1024;
#else
constexpr size_t threads_at_once = 4096;
#endif
constexpr size_t launches_at_once = 4;
constexpr unsigned warp_lanes = 32;
// How often each thread may look in vain, with no other doing anything, until it is clear that nothing will change.
constexpr size_t looks = 100;
// Implausible numbers, and floats that are hardly ever right.
constexpr int poison = 0xCD;

struct Block;

struct Thread {
  enum class State { fresh, ready, waiting, ended };
  // Where it is with regard to its cluster's barrier: before it, arrived, or arrived as all others have.
  enum class Barrier { before, arrived, open };

  Place place;
  Block *block = nullptr;
  unsigned number = 0;
  State state = State::fresh;
  Fiber fiber;
  Stack stack;
  // Where it waits, for whom, and what for.
  Site site{"", "", 0};
  unsigned mask = 0;
  Exchange *exchange = nullptr;
  Barrier barrier = Barrier::before;
  // Whether it is in a wait for its cluster.
  bool for_cluster = false;

  bool waits_for_block() const { return state == State::waiting && mask == 0 && !for_cluster; }
  unsigned lane() const { return number % warp_lanes; }
};

// A static array, by what it is known by.
struct Array {
  const void *key;
  char *begin;
  size_t bytes;
};

struct Warp {
  unsigned lanes = 0, waiting = 0, ended = 0;
};

struct Cluster {
  // In the order of their ranks.
  std::vector<Block *> blocks;
  size_t threads = 0, arrived = 0, ended = 0;
  // Whether all its threads have met at a barrier, so that all blocks have begun.
  bool met = false;
};

struct Block {
  dim3 place;
  std::shared_ptr<Cluster> cluster;
  unsigned rank = 0;
  std::vector<Thread> threads;
  std::vector<Warp> warps;
  size_t waiting = 0, ended = 0;
  // Static arrays lie behind the dynamic memory.
  std::vector<Array> arrays;
  size_t static_bytes = 0;
  std::unique_ptr<char[]> shared;

  Thread *warp(const Thread &thread) { return &threads[thread.number - thread.lane()]; }
};

std::string text(const dim3 &place) {
  return "(" + std::to_string(place.x) + "," + std::to_string(place.y) + "," + std::to_string(place.z) + ")";
}

std::string text(const Site &site) {
  const std::string file = site.file;
  return std::string(site.call) + " (" + file.substr(file.rfind('/') + 1) + ":" + std::to_string(site.line) + ")";
}

// Whether two sites are of one line of the sources; nearly always their files have one address.
bool same_place(const Site &a, const Site &b) {
  return a.line == b.line && (a.file == b.file || strcmp(a.file, b.file) == 0);
}

std::string text(const Thread &thread) {
  return "thread " + text(thread.place.thread) + " of block " + text(thread.place.block);
}

dim3 coordinates(size_t number, const dim3 &sizes) {
  const size_t row = number / sizes.x, plane = row / sizes.y;
  return {unsigned(number % sizes.x), unsigned(row % sizes.y), unsigned(plane)};
}

// As the widest loads want it.
size_t aligned(size_t bytes) { return (bytes + 15) / 16 * 16; }

size_t count(const dim3 &sizes) { return size_t(sizes.x) * sizes.y * sizes.z; }

class Grid {
 public:
  Grid(const Kernel &kernel, const Launch &launch, void **arguments)
      : kernel_(kernel), launch_(launch), arguments_(arguments), random_(launch.seed), each_(launch.cluster),
        all_{launch.blocks.x / each_.x, launch.blocks.y / each_.y, launch.blocks.z / each_.z} {}
  ~Grid();

  std::string run();

  void meet_block(Site site);
  void meet_warp(Site site, unsigned mask, Exchange &exchange);
  void interleave();
  void poll(Site site);
  void arrive_cluster(Site site);
  void wait_cluster(Site site);
  void *cluster_shared(void *own, unsigned rank, Site site);
  void *static_shared(const void *key, size_t bytes);

  Thread *running = nullptr;

 private:
  static void entry();
  void begin_blocks();
  void begin_cluster(const dim3 &place);
  Block &begin_block(const dim3 &place);
  void open_barrier(Cluster &cluster);
  void *static_shared(Block &block, const void *key, size_t bytes);
  void step(Thread &thread);
  void end(Thread &thread);
  void wait(Thread &thread, Site site);
  void ready(Thread &thread);
  [[noreturn]] void fail(const std::string &what);
  std::string deadlock() const;
  // A number below `bound`; 0 in a launch without a seed.
  size_t draw(size_t bound);

  const Kernel &kernel_;
  const Launch &launch_;
  void **const arguments_;
  uint64_t random_;
  std::string failure_;
  // What the host did is before what threads do, and that before what the host does next; but threads are not in order among
  // themselves. So these are two.
  char begun_ = 0, ended_ = 0;
  // The numbers of the clusters that have not begun.
  std::deque<size_t> clusters_;
  // Their sizes, and how many of them the grid has in each direction.
  dim3 each_, all_;
  std::vector<std::unique_ptr<Block>> resident_;
  std::deque<Thread *> ready_;
  // How many threads in a row have looked at memory in vain.
  size_t looked_ = 0;
};

// Streams can be many, and the stacks of all their launches more than the system gives. So a few launches run at a time, and each
// takes over the stacks of one before it.
class Turns {
 public:
  std::vector<Stack> take() {
    std::unique_lock<std::mutex> locked(mutex_);
    ended_.wait(locked, [&] { return !free_.empty(); });
    std::vector<Stack> stacks = std::move(free_.back());
    free_.pop_back();
    return stacks;
  }

  void give(std::vector<Stack> stacks) {
    {
      const std::lock_guard<std::mutex> locked(mutex_);
      free_.push_back(std::move(stacks));
    }
    ended_.notify_one();
  }

 private:
  std::mutex mutex_;
  std::condition_variable ended_;
  std::vector<std::vector<Stack>> free_ = std::vector<std::vector<Stack>>(launches_at_once);
};

// Never taken down, since streams may outlive it.
Turns &turns = *new Turns;

thread_local Grid *grid;
// Stacks of threads that have ended, the last one used first, while it is in the caches.
thread_local std::vector<Stack> stacks;

std::string Grid::run() {
  for (size_t cluster = 0; cluster < count(all_); cluster++) clusters_.push_back(cluster);
  Fiber::release(&begun_);
  for (;;) {
    begin_blocks();
    if (resident_.empty()) break;
    if (ready_.empty()) return deadlock();
    std::swap(ready_.front(), ready_[draw(ready_.size())]);
    Thread &thread = *ready_.front();
    ready_.pop_front();
    step(thread);
    if (!failure_.empty()) return failure_;
  }
  Fiber::acquire(&ended_);
  return {};
}

Grid::~Grid() {
  for (auto &block : resident_) {
    for (Thread &thread : block->threads) {
      // What a failed launch has left on the stacks is forgotten; kernels own nothing.
      if (thread.state == Thread::State::fresh || thread.state == Thread::State::ended) continue;
      thread.fiber.stop();
      stacks.push_back(std::move(thread.stack));
    }
  }
}

void Grid::begin_blocks() {
  const size_t threads = count(launch_.threads);
  const auto fits = [&] { return resident_.empty() || (resident_.size() + count(each_)) * threads <= threads_at_once; };
  while (!clusters_.empty() && (launch_.together || fits())) {
    std::swap(clusters_.front(), clusters_[draw(clusters_.size())]);
    begin_cluster(coordinates(clusters_.front(), all_));
    clusters_.pop_front();
  }
}

void Grid::begin_cluster(const dim3 &place) {
  auto cluster = std::make_shared<Cluster>();
  for (unsigned rank = 0; rank < count(each_); rank++) {
    const dim3 within = coordinates(rank, each_);
    Block &block = begin_block(
        {place.x * each_.x + within.x, place.y * each_.y + within.y, place.z * each_.z + within.z});
    block.cluster = cluster;
    block.rank = rank;
    cluster->blocks.push_back(&block);
    cluster->threads += block.threads.size();
  }
}

Block &Grid::begin_block(const dim3 &place) {
  auto block = std::make_unique<Block>();
  block->place = place;
  const size_t bytes = aligned(launch_.shared) + static_bytes_of_a_block;
  block->shared.reset(new char[bytes]);
  memset(block->shared.get(), poison, bytes);
  block->threads.resize(count(launch_.threads));
  block->warps.resize((block->threads.size() + warp_lanes - 1) / warp_lanes);
  for (unsigned number = 0; number < block->threads.size(); number++) {
    Thread &thread = block->threads[number];
    thread.place = {coordinates(number, launch_.threads), place, launch_.threads, launch_.blocks};
    thread.block = block.get();
    thread.number = number;
    block->warps[number / warp_lanes].lanes |= 1u << thread.lane();
    ready_.push_back(&thread);
  }
  resident_.push_back(std::move(block));
  return *resident_.back();
}

void Grid::step(Thread &thread) {
  if (thread.state == Thread::State::fresh) {
    if (stacks.empty()) stacks.push_back(Stack::make());
    thread.stack = std::move(stacks.back());
    stacks.pop_back();
    thread.fiber.start(thread.stack, entry);
    thread.state = Thread::State::ready;
  }
  running = &thread;
  const size_t before = looked_;
  thread.fiber.resume();
  running = nullptr;
  if (looked_ == before) looked_ = 0;
  if (thread.state == Thread::State::ended) end(thread);
}

// The first call on every fiber's stack.
void Grid::entry() {
  Grid &own = *grid;
  Thread &thread = *own.running;
  thread.fiber.begun();
  Fiber::acquire(&own.begun_);
  own.kernel_.run(own.arguments_);
  Fiber::release(&own.ended_);

  Block &block = *thread.block;
  Warp &warp = block.warps[thread.number / warp_lanes];
  if (block.waiting > 0) {
    const auto waits = [](const Thread &other) { return other.waits_for_block(); };
    const Thread &other = *std::find_if(block.threads.begin(), block.threads.end(), waits);
    own.fail("DIVERGENCE: " + text(thread) + " ended, and " + text(other) + " waits for it at " + text(other.site));
  }
  for (unsigned lane = 0; lane < warp_lanes; lane++) {
    if ((warp.waiting >> lane & 1) == 0) continue;
    const Thread &other = block.warp(thread)[lane];
    if ((other.mask >> thread.lane() & 1) == 0) continue;
    own.fail("DIVERGENCE: " + text(thread) + " ended, and " + text(other) + " waits for it at " + text(other.site));
  }
  warp.ended |= 1u << thread.lane();
  block.ended++;
  thread.state = Thread::State::ended;
  // The barrier of a cluster waits for no thread that has ended.
  if (thread.barrier == Thread::Barrier::arrived) block.cluster->arrived--;
  block.cluster->ended++;
  own.open_barrier(*block.cluster);
  thread.fiber.suspend(true);
}

void Grid::end(Thread &thread) {
  thread.fiber.stop();
#ifdef HOST_CUDA_TSAN
  // To the sanitizer what another wrote on it would be no other's memory.
  thread.stack = Stack();
#else
  stacks.push_back(std::move(thread.stack));
#endif
  Block *block = thread.block;
  if (block->ended < block->threads.size()) return;
  const std::shared_ptr<Cluster> cluster = block->cluster;
  // Its memory is no other's to use any more. It goes with that of the whole cluster, so that a block that uses it is noticed.
  if (cluster->blocks.size() > 1) memset(block->shared.get(), poison, aligned(launch_.shared) + static_bytes_of_a_block);
  if (cluster->ended < cluster->threads) return;
  const auto same = [&](const std::unique_ptr<Block> &other) { return other->cluster == cluster; };
  resident_.erase(std::remove_if(resident_.begin(), resident_.end(), same), resident_.end());
}

void Grid::wait(Thread &thread, Site site) {
  thread.site = site;
  thread.state = Thread::State::waiting;
  thread.fiber.suspend();
}

void Grid::ready(Thread &thread) {
  thread.state = Thread::State::ready;
  ready_.push_back(&thread);
}

void Grid::meet_block(Site site) {
  Thread &thread = *running;
  Block &block = *thread.block;
  if (block.ended > 0) {
    const auto ended = [](const Thread &other) { return other.state == Thread::State::ended; };
    const Thread &other = *std::find_if(block.threads.begin(), block.threads.end(), ended);
    fail("DIVERGENCE: " + text(thread) + " waits at " + text(site) + " for " + text(other) + ", which has ended");
  }
  for (const Thread &other : block.threads) {
    if (block.waiting == 0) break;
    if (!other.waits_for_block()) continue;
    if (other.site.line != site.line || strcmp(other.site.file, site.file) != 0) {
      fail("DIVERGENCE: " + text(thread) + " waits at " + text(site) + ", and " + text(other) + " at " + text(other.site));
    }
    break;
  }
  Fiber::release(&block);
  thread.mask = 0;
  block.waiting++;
  if (block.waiting == block.threads.size()) {
    block.waiting = 0;
    for (Thread &other : block.threads) ready(other);
    thread.fiber.suspend();
  } else {
    wait(thread, site);
  }
  Fiber::acquire(&block);
}

void Grid::meet_warp(Site site, unsigned mask, Exchange &exchange) {
  Thread &thread = *running;
  Warp &warp = thread.block->warps[thread.number / warp_lanes];
  Thread *lanes = thread.block->warp(thread);
  // Lanes that a block does not have are left out by the hardware.
  const unsigned members = mask & warp.lanes, own = 1u << thread.lane();
  if ((members & own) == 0) fail("DIVERGENCE: " + text(thread) + " is not in the mask of its " + text(site));
  if ((members >> exchange.source & 1) == 0 || exchange.source >= warp_lanes) {
    fail("DIVERGENCE: " + text(thread) + " takes the value of lane " + std::to_string(exchange.source) +
         ", which does not come to " + text(site));
  }
  for (unsigned lane = 0; lane < warp_lanes; lane++) {
    if ((members >> lane & 1) == 0) continue;
    const Thread &other = lanes[lane];
    if (warp.ended >> lane & 1) {
      fail("DIVERGENCE: " + text(thread) + " waits at " + text(site) + " for " + text(other) + ", which has ended");
    }
    if ((warp.waiting >> lane & 1) == 0) continue;
    if (other.mask != mask || !same_place(other.site, site)) {
      fail("DIVERGENCE: " + text(thread) + " waits at " + text(site) + ", and " + text(other) + " at " + text(other.site) +
           " or with another mask");
    }
  }
  Fiber::release(&warp);
  thread.mask = mask;
  thread.exchange = &exchange;
  warp.waiting |= own;
  if ((warp.waiting & members) != members) {
    wait(thread, site);
  } else {
    unsigned votes = 0;
    if (exchange.act != nullptr) {
      uint64_t brought[warp_lanes] = {};
      for (unsigned lane = 0; lane < warp_lanes; lane++) {
        if (members >> lane & 1) brought[lane] = lanes[lane].exchange->brought;
      }
      exchange.act(brought);
    }
    for (unsigned lane = 0; lane < warp_lanes; lane++) {
      if (members >> lane & 1) votes |= unsigned(lanes[lane].exchange->brought & 1) << lane;
    }
    for (unsigned lane = 0; lane < warp_lanes; lane++) {
      if ((members >> lane & 1) == 0) continue;
      Exchange &theirs = *lanes[lane].exchange;
      theirs.taken = lanes[theirs.source].exchange->brought;
      theirs.votes = votes;
      ready(lanes[lane]);
    }
    warp.waiting &= ~members;
    thread.fiber.suspend();
  }
  Fiber::acquire(&warp);
}

void Grid::interleave() {
  if (launch_.seed == 0 || draw(4) != 0) return;
  Thread &thread = *running;
  ready_.push_back(&thread);
  thread.fiber.suspend();
}

void Grid::poll(Site site) {
  Thread &thread = *running;
  thread.site = site;
  if (++looked_ > looks * ready_.size() + looks) {
    fail("LIVELOCK: " + text(thread) + " waits for memory that no thread changes, at " + text(site));
  }
  ready_.push_back(&thread);
  thread.fiber.suspend();
}

void Grid::arrive_cluster(Site site) {
  Thread &thread = *running;
  Cluster &cluster = *thread.block->cluster;
  if (thread.barrier != Thread::Barrier::before) {
    fail("DIVERGENCE: " + text(thread) + " arrives at " + text(site) + " again, without a wait after the first time");
  }
  Fiber::release(&cluster);
  thread.barrier = Thread::Barrier::arrived;
  cluster.arrived++;
  open_barrier(cluster);
  interleave();
}

// Lets the threads of a cluster go on if all have come.
void Grid::open_barrier(Cluster &cluster) {
  if (cluster.arrived == 0 || cluster.arrived + cluster.ended < cluster.threads) return;
  cluster.arrived = 0;
  cluster.met = true;
  for (Block *block : cluster.blocks) {
    for (Thread &thread : block->threads) {
      if (thread.state == Thread::State::ended) continue;
      thread.barrier = Thread::Barrier::open;
      if (thread.for_cluster) ready(thread);
    }
  }
}

void Grid::wait_cluster(Site site) {
  Thread &thread = *running;
  if (thread.barrier == Thread::Barrier::before) {
    fail("DIVERGENCE: " + text(thread) + " waits at " + text(site) + " without having arrived");
  }
  thread.mask = 0;
  thread.for_cluster = thread.barrier == Thread::Barrier::arrived;
  if (thread.for_cluster) wait(thread, site);
  thread.for_cluster = false;
  thread.barrier = Thread::Barrier::before;
  Fiber::acquire(thread.block->cluster.get());
}

void *Grid::cluster_shared(void *own, unsigned rank, Site site) {
  Thread &thread = *running;
  Block &block = *thread.block;
  if (rank >= block.cluster->blocks.size()) {
    fail("DIVERGENCE: " + text(thread) + " asks for block " + std::to_string(rank) + " of a cluster of " +
         std::to_string(block.cluster->blocks.size()) + ", at " + text(site));
  }
  Block &other = *block.cluster->blocks[rank];
  if (other.ended == other.threads.size()) {
    fail("DIVERGENCE: " + text(thread) + " asks for the memory of block " + text(other.place) + ", which has ended, at " +
         text(site));
  }
  if (!block.cluster->met && &other != &block) {
    fail("DIVERGENCE: " + text(thread) + " asks for the memory of block " + text(other.place) +
         ", which may not have begun: the cluster has not met before " + text(site));
  }
  char *const address = static_cast<char *>(own);
  const ptrdiff_t at = address - block.shared.get();
  if (at >= 0 && at < ptrdiff_t(aligned(launch_.shared))) return other.shared.get() + at;
  for (const auto &[key, array, bytes] : block.arrays) {
    if (address < array || address >= array + bytes) continue;
    return static_cast<char *>(static_shared(other, key, bytes)) + (address - array);
  }
  fail("DIVERGENCE: " + text(thread) + " asks for what is in no shared memory, at " + text(site));
}

void *Grid::static_shared(const void *key, size_t bytes) { return static_shared(*running->block, key, bytes); }

void *Grid::static_shared(Block &block, const void *key, size_t bytes) {
  for (const auto &[known, array, length] : block.arrays) {
    if (known == key) return array;
  }
  const size_t begin = aligned(block.static_bytes);
  if (begin + bytes > static_bytes_of_a_block) {
    fail("a block has static arrays of more than " + std::to_string(static_bytes_of_a_block) + " bytes");
  }
  block.static_bytes = begin + bytes;
  char *array = block.shared.get() + aligned(launch_.shared) + begin;
  block.arrays.push_back({key, array, bytes});
  return array;
}

void Grid::fail(const std::string &what) {
  failure_ = what;
  for (;;) running->fiber.suspend();
}

std::string Grid::deadlock() const {
  std::string report = "DEADLOCK: threads wait for each other";
  for (const auto &block : resident_) {
    std::map<std::string, size_t> places;
    for (const Thread &thread : block->threads) {
      if (thread.state == Thread::State::waiting) places[text(thread.site)]++;
    }
    for (const auto &[place, threads] : places) {
      report += "; block " + text(block->place) + ": " + std::to_string(threads) + " at " + place;
    }
  }
  return report;
}

size_t Grid::draw(size_t bound) {
  if (launch_.seed == 0) return 0;
  // splitmix64
  uint64_t bits = random_ += 0x9e3779b97f4a7c15;
  bits = (bits ^ bits >> 30) * 0xbf58476d1ce4e5b9;
  bits = (bits ^ bits >> 27) * 0x94d049bb133111eb;
  return static_cast<size_t>((bits ^ bits >> 31) % bound);
}

}  // namespace

const Place &here() { return grid->running->place; }
unsigned lane() { return grid->running->lane(); }
void meet_block(Site site) { grid->meet_block(site); }
void meet_warp(Site site, unsigned mask, Exchange &exchange) { grid->meet_warp(site, mask, exchange); }
void interleave() { grid->interleave(); }
void poll(Site site) { grid->poll(site); }
void arrive_cluster(Site site) { grid->arrive_cluster(site); }
void wait_cluster(Site site) { grid->wait_cluster(site); }
unsigned cluster_rank() { return grid->running->block->rank; }
void *cluster_shared(void *own, unsigned rank, Site site) { return grid->cluster_shared(own, rank, site); }
void *static_shared(const void *key, size_t bytes) { return grid->static_shared(key, bytes); }
void *dynamic_shared() { return grid->running->block->shared.get(); }

// What is wrong with a launch before it begins; nothing if it can run.
static std::string refusal(const Launch &launch) {
  const size_t threads = count(launch.threads);
  if (count(launch.blocks) == 0 || threads == 0) return "a launch without threads";
  if (launch.blocks.x > 0x7fffffff || launch.blocks.y > 0xffff || launch.blocks.z > 0xffff) {
    return "a grid of " + text(launch.blocks) + " blocks is more than a device takes";
  }
  if (threads > threads_of_a_block || launch.threads.z > 64) {
    return "a block of " + text(launch.threads) + " threads is more than a device takes";
  }
  const dim3 &each = launch.cluster;
  if (count(each) == 0 || count(each) > blocks_of_a_cluster) {
    return "a cluster of " + text(each) + " blocks is more than a device takes";
  }
  if (launch.blocks.x % each.x != 0 || launch.blocks.y % each.y != 0 || launch.blocks.z % each.z != 0) {
    return "a grid of " + text(launch.blocks) + " blocks is no multiple of its clusters of " + text(each);
  }
  if (launch.shared > shared_bytes_of_a_block) return "a block has too much shared memory";
  return {};
}

bool possible(const Launch &launch) { return refusal(launch).empty(); }

std::string launch(const Kernel &kernel, const Launch &launch, void **arguments) {
  std::string failure = refusal(launch);
  if (failure.empty()) {
    stacks = turns.take();
    {
      Grid own(kernel, launch, arguments);
      grid = &own;
      failure = own.run();
      grid = nullptr;
    }
    turns.give(std::move(stacks));
  }
  return failure.empty() ? failure : std::string(kernel.name) + ": " + failure;
}

}  // namespace host_cuda
