#include "kv_ahead.h"

#include <algorithm>

namespace unspool {

void KvAhead::look_at(const Instruction& op, const Deal& deal, const KvStore& kv, int thread, size_t most) {
  if (op_ == &op) return;
  *this = KvAhead();
  op_ = &op;
  deal_ = &deal;
  kv_ = &kv;
  item_ = deal.first(thread);
  last_ = deal.first(thread + 1);
  left_ = most;
}

const uint8_t* KvAhead::take(size_t bytes) {
  if (at_ >= to_ && !turn_page()) return nullptr;
  const uint8_t* taken = at_;
  at_ += bytes;
  return taken;
}

// All heads of a layer lie in a row on a page, K before V. Items read one head each, and several may read the
// same pages: what the item before them has read is not told of again.
bool KvAhead::turn_page() {
  if (left_ == 0) return false;
  while (token_ >= end_) {
    if (item_ >= last_) return false;
    const Unit& unit = deal_->item(item_++).unit;
    const int first = unit.first_token(op_->shape), end = unit.end_token();
    const bool same = unit.pages == pages_;
    token_ = (same ? std::max(first, end_) : first) / kv_->page_size * kv_->page_size;
    end_ = same ? std::max(end_, end) : end;
    pages_ = unit.pages;
  }
  const size_t page = pages_[token_ / kv_->page_size];
  const uint16_t* values = kv_->head(op_->layer, 0, 0) + page * kv_->page_values;
  const size_t bytes = std::min(left_, 2 * sizeof(uint16_t) * kv_->head_values * op_->n_kv_heads);
  at_ = reinterpret_cast<const uint8_t*>(values);
  to_ = at_ + bytes;
  left_ -= bytes;
  token_ += kv_->page_size;
  return true;
}

}  // namespace unspool
