// Which process this is: a forked child has none of its parent's threads.
#pragma once
#if !defined(_WIN32)
#include <unistd.h>
#endif

namespace unspool {

// Never 0.
inline int this_process() {
#if defined(_WIN32)
  return 1;
#else
  return (int)getpid();
#endif
}

}  // namespace unspool
