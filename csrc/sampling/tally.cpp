#include "tally.h"

namespace unspool::sampling {

void Tally::add(Scope scope, int32_t token_id, int32_t by) {
  const auto [entry, is_new] = place_.try_emplace(token_id, ids_.size());
  const size_t at = entry->second;
  if (is_new) {
    ids_.push_back(token_id);
    for (auto& counts : counts_) counts.push_back(0);
  }
  counts_[scope][at] += by;
  if (counts_[kRepetition][at] == 0 && counts_[kAdditive][at] == 0) remove(token_id, at);
}

// The last of the table takes its place.
void Tally::remove(int32_t token_id, size_t at) {
  place_.erase(token_id);
  const size_t last = ids_.size() - 1;
  if (at != last) {
    ids_[at] = ids_[last];
    for (auto& counts : counts_) counts[at] = counts[last];
    place_[ids_[at]] = at;
  }
  ids_.pop_back();
  for (auto& counts : counts_) counts.pop_back();
}

}  // namespace unspool::sampling
