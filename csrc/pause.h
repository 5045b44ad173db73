// One beat of a waiting loop.
#pragma once

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace unspool {

inline void pause() {
#if defined(__x86_64__)
  _mm_pause();
#endif
}

}  // namespace unspool
