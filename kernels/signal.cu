// The completion of a task as a kernel of its own, one thread: for work whose last kernel does not signal.

#include "portable.cuh"

KERNEL signal(u64 *counted, u64 *host) { signal_host(*counted, counted, host); }
EXPORT_KERNEL(signal)
