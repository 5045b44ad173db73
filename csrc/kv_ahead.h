// What a thread will read of K and V in the attention to come, asked for bit by bit while it computes
// products of so many rows that memory has time left.
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "deal.h"
#include "kv_store.h"
#include "network.h"

namespace unspool {

class alignas(64) KvAhead {
 public:
  // To be called as a pass begins: pages and items may be others.
  void forget() { op_ = nullptr; }

  // Turns to the items that `thread` begins with in the attention `op`, unless it did so before; `most` bytes
  // of their pages are told of.
  void look_at(const Instruction& op, const Deal& deal, const KvStore& kv, int thread, size_t most);

  bool any_left() const { return at_ < to_ || (left_ > 0 && (token_ < end_ || item_ < last_)); }
  // Some of it in a row, about `bytes`; null when nothing is left.
  const uint8_t* take(size_t bytes);

 private:
  bool turn_page();

  const Instruction* op_ = nullptr;  // the attention
  const Deal* deal_ = nullptr;
  const KvStore* kv_ = nullptr;
  int item_ = 0, last_ = 0;                      // those that are left
  const int32_t* pages_ = nullptr;               // of the item before
  int token_ = 0, end_ = 0;                      // of it: [token, end) are left
  const uint8_t *at_ = nullptr, *to_ = nullptr;  // of the page: left
  size_t left_ = 0;
};

}  // namespace unspool
