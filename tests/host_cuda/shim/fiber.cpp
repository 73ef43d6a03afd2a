// Switching is a dozen instructions on x86-64; elsewhere `ucontext`, which asks the kernel at every switch, does it.
//
// For the sanitizers this file is compiled without instrumentation and tells them by hand who runs: HOST_CUDA_TSAN and
// HOST_CUDA_ASAN say which of them the kernels are instrumented for.
#include "fiber.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <utility>

#ifdef HOST_CUDA_TSAN
#include <sanitizer/tsan_interface.h>
#endif
#ifdef HOST_CUDA_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace host_cuda {

static size_t page() {
  static const size_t bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

Stack Stack::make() {
  const size_t all = bytes + page();
  void *memory = mmap(nullptr, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED || mprotect(memory, page(), PROT_NONE) != 0) {
    perror("host CUDA: a fiber's stack");
    abort();
  }
  Stack stack;
  stack.low_ = static_cast<char *>(memory) + page();
  return stack;
}

Stack::~Stack() {
  if (low_ != nullptr) munmap(low_ - page(), bytes + page());
}

Stack::Stack(Stack &&other) noexcept : low_(std::exchange(other.low_, nullptr)) {}

Stack &Stack::operator=(Stack &&other) noexcept {
  std::swap(low_, other.low_);
  return *this;
}

#ifndef HOST_CUDA_UCONTEXT
// Saves the registers that a called function must keep, changes the stack, and takes the registers of the other side.
extern "C" void host_cuda_switch(void **from, void *to);
asm(R"(
.text
.globl host_cuda_switch
.hidden host_cuda_switch
.type host_cuda_switch, @function
host_cuda_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size host_cuda_switch, . - host_cuda_switch
)");
#endif

void Fiber::start(const Stack &stack, void (*call)()) {
  low_ = stack.low();
#ifdef HOST_CUDA_ASAN
  __asan_unpoison_memory_region(low_, Stack::bytes);
#endif
#ifdef HOST_CUDA_TSAN
  traced_ = __tsan_create_fiber(0);
#endif
#ifdef HOST_CUDA_UCONTEXT
  getcontext(&inside_);
  inside_.uc_stack.ss_sp = stack.low();
  inside_.uc_stack.ss_size = Stack::bytes;
  inside_.uc_link = nullptr;
  makecontext(&inside_, call, 0);
#else
  // As a call would have left it: a return address, of which there is none, below an address that 16 divides.
  void **top = reinterpret_cast<void **>(stack.low() + Stack::bytes);
  *--top = nullptr;
  *--top = reinterpret_cast<void *>(call);
  for (int saved = 0; saved < 6; saved++) *--top = nullptr;
  inside_ = top;
#endif
}

void Fiber::resume() {
#ifdef HOST_CUDA_TSAN
  // 1: a switch orders nothing; only meetings do.
  tracer_ = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(traced_, 1);
#endif
#ifdef HOST_CUDA_ASAN
  __sanitizer_start_switch_fiber(&fake_outside_, low_, Stack::bytes);
#endif
#ifdef HOST_CUDA_UCONTEXT
  swapcontext(&outside_, &inside_);
#else
  host_cuda_switch(&outside_, inside_);
#endif
#ifdef HOST_CUDA_ASAN
  __sanitizer_finish_switch_fiber(fake_outside_, nullptr, nullptr);
#endif
}

void Fiber::begun() {
#ifdef HOST_CUDA_ASAN
  __sanitizer_finish_switch_fiber(nullptr, &host_low_, &host_bytes_);
#endif
}

void Fiber::suspend([[maybe_unused]] bool for_ever) {
#ifdef HOST_CUDA_TSAN
  __tsan_switch_to_fiber(tracer_, 1);
#endif
#ifdef HOST_CUDA_ASAN
  __sanitizer_start_switch_fiber(for_ever ? nullptr : &fake_inside_, host_low_, host_bytes_);
#endif
#ifdef HOST_CUDA_UCONTEXT
  swapcontext(&inside_, &outside_);
#else
  host_cuda_switch(&inside_, outside_);
#endif
#ifdef HOST_CUDA_ASAN
  __sanitizer_finish_switch_fiber(fake_inside_, &host_low_, &host_bytes_);
#endif
}

void Fiber::stop() {
#ifdef HOST_CUDA_TSAN
  __tsan_destroy_fiber(traced_);
#endif
}

void Fiber::release([[maybe_unused]] void *address) {
#ifdef HOST_CUDA_TSAN
  __tsan_release(address);
#endif
}

void Fiber::acquire([[maybe_unused]] void *address) {
#ifdef HOST_CUDA_TSAN
  __tsan_acquire(address);
#endif
}

}  // namespace host_cuda
