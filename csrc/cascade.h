// Which sequences of a plan lie on the same pages, and how far.
#pragma once
#include <vector>

#include "plan.h"

namespace unspool {

// Sequences that have the same pages in segments [first, last), all of them read before this plan.
struct Stretch {
  int begin, end;  // [begin, end) of Cascade's sequences, two or more
  int first, last;
};

class Cascade {
 public:
  // Groups by page ids alone, segment by segment like a tree of prefixes: each table is read once, as far as
  // it is shared. Pages that are written by this plan belong to one sequence and are shared with nobody.
  void find(const Plan& plan, int page_size);

  // Those of a sequence come in ascending order, and end where its own segments begin.
  const std::vector<Stretch>& stretches() const { return stretches_; }
  int sequence(int index) const { return sequences_[index]; }
  int own_first(int sequence) const { return own_first_[sequence]; }

 private:
  struct Group {
    int begin, end;  // of sequences_
    int segment;     // all before it are the same
  };

  void extend(Group group);
  bool read_before(int sequence, int segment) const;
  const int32_t* pages(int sequence, int segment) const;
  bool same(int sequence, int other, int segment) const;

  const Plan* plan_ = nullptr;
  int segment_pages_ = 1;
  std::vector<Stretch> stretches_;
  std::vector<int> sequences_;  // that might share something
  std::vector<int> own_first_;  // (B,) segment
  std::vector<Group> open_;
};

}  // namespace unspool
