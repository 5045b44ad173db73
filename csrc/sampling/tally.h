// How often each token occurs in what the penalties look at.
#pragma once
#include <stddef.h>
#include <stdint.h>

#include <unordered_map>
#include <vector>

#include "program.h"

namespace unspool::sampling {

// Two counts for each distinct token, in a table without holes: what repetition looks at, and what frequency
// and presence do. A token is in it while one of the two is not 0.
class Tally {
 public:
  enum Scope { kRepetition, kAdditive };

  void add(Scope scope, int32_t token_id, int32_t by);
  size_t size() const { return ids_.size(); }
  Listed<int32_t> listed(Scope scope) const { return {ids_.data(), counts_[scope].data(), ids_.size()}; }

 private:
  void remove(int32_t token_id, size_t at);

  std::unordered_map<int32_t, size_t> place_;  // of a token in the table
  std::vector<int32_t> ids_;
  std::vector<int32_t> counts_[2];
};

}  // namespace unspool::sampling
