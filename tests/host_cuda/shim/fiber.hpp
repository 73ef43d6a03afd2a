// Fibers: calls that can be left in the middle and gone on with later, all on one thread of the host.
#pragma once

#include <cstddef>

#if !defined(__x86_64__) || defined(HOST_CUDA_UCONTEXT)
#define HOST_CUDA_UCONTEXT 1
#include <ucontext.h>
#endif

namespace host_cuda {

// A stack above a protected page, so that a kernel that overflows it is stopped at once.
class Stack {
 public:
  static constexpr size_t bytes = 64 << 10;

  // None.
  Stack() = default;
  static Stack make();
  ~Stack();
  Stack(Stack &&other) noexcept;
  Stack &operator=(Stack &&other) noexcept;

  char *low() const { return low_; }

 private:
  char *low_ = nullptr;
};

class Fiber {
 public:
  // Lays a call on the stack; it runs at the first `resume`. Its first act is `begun`, and its last `suspend(true)`, from
  // which it does not come back.
  void start(const Stack &stack, void (*call)());
  // Runs the fiber until it suspends itself. Called on the host's own stack.
  void resume();
  void begun();
  // Goes back to where the fiber was resumed.
  void suspend(bool for_ever = false);
  // Forgets a fiber that will not be resumed.
  void stop();

  // What the sanitizers are told: everything before a release, of any fiber, happens before what follows an acquire of the
  // same address.
  static void release(void *address);
  static void acquire(void *address);

 private:
#ifdef HOST_CUDA_UCONTEXT
  ucontext_t inside_, outside_;
#else
  void *inside_ = nullptr, *outside_ = nullptr;
#endif
  char *low_ = nullptr;
  // The sanitizers' own notions of the two sides.
  void *traced_ = nullptr, *tracer_ = nullptr;
  void *fake_inside_ = nullptr, *fake_outside_ = nullptr;
  const void *host_low_ = nullptr;
  size_t host_bytes_ = 0;
};

}  // namespace host_cuda
