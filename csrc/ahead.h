// What a thread will read next, brought nearer bit by bit while it waits for the others.
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "pause.h"

namespace unspool {

class alignas(64) Ahead {
 public:
  void clear() { n_spans_ = next_ = 0; }

  // Spans beyond the room for them, or beyond kMost bytes in all, are left to be read when their time comes.
  void add(const uint8_t* from, size_t bytes) {
    if (n_spans_ == 0) left_ = kMost;
    if (bytes > left_) bytes = left_;
    if (bytes == 0 || n_spans_ == kSpans) return;
    spans_[n_spans_++] = {from, from + bytes};
    left_ -= bytes;
  }

  // Asks for the next few lines; a pause when there are none.
  void bite() {
    if (next_ == n_spans_) return pause();
    Span& span = spans_[next_];
    for (int i = 0; i < kLines && span.at < span.end; ++i, span.at += 64) __builtin_prefetch(span.at, 0, 2);
    if (span.at >= span.end) ++next_;
  }

 private:
  struct Span {
    const uint8_t *at, *end;
  };
  static constexpr int kSpans = 4, kLines = 2;
  static constexpr size_t kMost = 256 * 1024;  // a part of the second-level cache

  Span spans_[kSpans];
  int n_spans_ = 0, next_ = 0;
  size_t left_ = 0;
};

}  // namespace unspool
