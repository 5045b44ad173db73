// Memory that is asked for while a tile is computed.
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "../kernels.h"

namespace unspool {
namespace UNSPOOL_ISA {

// What is asked for with every group of a tile: some lines at `next`, `beside_bytes` at `beside`; of what is
// null, nothing.
struct Asking {
  const uint8_t* next = nullptr;  // once past `end` it goes on at `then`
  const uint8_t *end = reinterpret_cast<const uint8_t*>(UINTPTR_MAX), *then = nullptr;
  const uint8_t* beside = nullptr;
  int beside_bytes = Fetch::kBesideBytes;  // a multiple of that

  void turn(const uint8_t* at, const uint8_t* to) {
    end = at, then = to;
    turn_if_past();
  }
  // Where the next of n groups asks, each at so many bytes from the one before; what comes beside all of them
  // is asked for now. Past `end` these may run on for n groups.
  const uint8_t* take(int n, size_t bytes) {
    const uint8_t* const from = next;
    for (int i = 0; i < n; ++i) {
      next += bytes;
      ask_beside();
    }
    turn_if_past();
    return from;
  }
  // `next` moves on by so many bytes.
  template <int LINES>
  void go_on(size_t bytes) {
    if (next) {
      ask_for<LINES>(next);
      next += bytes;
      turn_if_past();
    }
    ask_beside();
  }

 private:
  void ask_beside() {
    if (!beside) return;
    for (const uint8_t* const stop = beside + beside_bytes; beside < stop; beside += Fetch::kBesideBytes)
      ask_for<Fetch::kBesideBytes / 64>(beside);
  }
  void turn_if_past() {
    if (next < end) return;
    next = then + (next - end);
    end = reinterpret_cast<const uint8_t*>(UINTPTR_MAX);
  }
};

}  // namespace UNSPOOL_ISA
}  // namespace unspool
