// Linear instructions of a forward pass: tiles of packed weights by rows. The arithmetic is in
// kernels/gemm_quant.h and kernels/gemm_float.h.
#include <algorithm>

#include "forward.h"

namespace unspool {

// Of a matrix, what a thread takes at once: of less, its prefetches would run past what it reads next.
constexpr size_t kLeastBytes = 16 * 1024;

// Every thread walks a range of tiles of its own, in order, so that its prefetches run ahead into its own
// work, and then helps the others with what is left of theirs.
int Forward::linear(const Stage& stage, size_t number, int thread) {
  const Instruction& op = network_.instructions[stage.index];
  const int n_threads = pool_.size();
  const Share share = {0, row_count(op), thread, /*all_tiles=*/false, /*in_cache=*/false};
  const size_t tile_bytes = network_.matrices[op.parts[0].matrix].tile_bytes;
  const int few = (int)((kLeastBytes + tile_bytes - 1) / tile_bytes);
  int n_done = 0;
  for (int i = 0; i < n_threads; ++i) {
    const int owner = (thread + i) % n_threads;
    int first, last;
    range(op.n_tiles, owner, &first, &last);
    // Many rows pass over each part from far, so it had better not be small.
    const int least = row_count(op) > Acts::kBlock ? std::max(few, (last - first) / 8) : few;
    int begin, end;
    while (take(counter(number, owner), last - first, least, &begin, &end)) {
      tiles(op, first + begin, first + end, share);
      n_done += end - begin;
    }
  }
  look_ahead(op.next_linear, thread);
  return n_done;
}

// Takes a part of what is left of n units of work, `least` or more, and leaves no fewer: large parts first,
// so that all threads end together.
bool Forward::take(std::atomic<int>& next, int n, int least, int* begin, int* end) {
  *begin = next.load(std::memory_order_relaxed);
  do {
    if (*begin >= n) return false;
    *end = *begin + std::max(least, (n - *begin) / 4);
    if (n - *end < least) *end = n;
  } while (!next.compare_exchange_weak(*begin, *end, std::memory_order_relaxed));
  return true;
}

// All tiles for some rows. Columns of gate and up are gated while they are in the cache.
void Forward::linear_rows(const Instruction& op, const Share& share) {
  constexpr size_t kGatedBytes = 128 * 1024;  // of the weights of gate, and as many of up
  const Packed& w = network_.matrices[op.parts[0].matrix];
  const int stride = op.gated == kNone ? op.n_tiles : std::max(1, (int)(kGatedBytes / w.tile_bytes));
  for (int t = 0; t < op.n_tiles; t += stride) tiles(op, t, std::min(t + stride, op.n_tiles), share);
}

// Tiles [begin, end) of the instruction for some rows, counted over all its parts, or of both where they are
// gated.
void Forward::tiles(const Instruction& op, int begin, int end, const Share& share) {
  if (op.gated != kNone) {
    const Part &gate = op.parts[0], &up = op.parts[1];
    product(op, gate, begin, end, share, network_.matrices[up.matrix].tile(begin));
    product(op, up, begin, end, share, after(op, end, share));
    return gate_columns(op, begin, end, share.first, share.last);
  }
  int offset = 0;  // tiles of the parts before this one
  for (const Part& part : op.parts) {
    const int n_tiles = network_.matrices[part.matrix].n_tiles;
    const int first = std::max(begin - offset, 0), last = std::min(end - offset, n_tiles);
    if (first < last) product(op, part, first, last, share, after(op, offset + last, share));
    offset += n_tiles;
  }
}

// Tile t of the instruction, counted as in tiles(); of two that are gated, that of gate.
const uint8_t* Forward::tile(const Instruction& op, int t) const {
  size_t part = 0;
  for (int n; t >= (n = network_.matrices[op.parts[part].matrix].n_tiles); ++part) t -= n;
  return network_.matrices[op.parts[part].matrix].tile(t);
}

// The weights that the thread probably reads after the tiles before t: its own that are left, and then its
// own of the next linear instruction. (With another unit of rows left, it goes back to the stage's first.)
const uint8_t* Forward::after(const Instruction& op, int t, const Share& share) const {
  const auto own = [&](const Instruction& of, int* first, int* last) {
    *first = 0;
    *last = of.n_tiles;
    if (!share.all_tiles || of.selected) range(of.n_tiles, share.thread, first, last);
  };
  int first, last;
  own(op, &first, &last);
  if (t >= first && t < last) return tile(op, t);
  const Instruction& next = network_.instructions[op.next_linear];
  own(next, &first, &last);
  return tile(next, first);
}

void Forward::product(const Instruction& op, const Part& part, int tile0, int tile1, const Share& share,
                      const uint8_t* then) {
  const Packed& w = network_.matrices[part.matrix];
  const float* bias = part.bias == kNone ? nullptr : network_.vectors[part.bias].data();
  const Rows out = rows(part.out);
  if (!w.quantized())
    return kernels_.gemm_float(w, tile0, tile1, {rows(op.x), halves(op.x)}, share.first, share.last, out,
                               bias, part.accumulate);
  Fetch fetch = {w.tile(tile1), share.in_cache ? nullptr : then};
  if (KvAhead* kv = kv_ahead(op, share.thread)) {
    fetch.take = [](void* from, size_t bytes) { return static_cast<KvAhead*>(from)->take(bytes); };
    fetch.from = kv;
  }
  kernels_.gemm_quant(w, tile0, tile1, acts(op.x, op).rows(share.first, share.last),
                      {out.row(share.first), out.stride}, bias, part.accumulate,
                      gemm_scratch_.as<float>() + (size_t)share.thread * kGemmScratch, fetch);
}

void Forward::gate_columns(const Instruction& op, int begin, int end, int first_row, int last_row) {
  const Rows gate = rows(op.parts[0].out), up = rows(op.parts[1].out), out = rows(op.gated);
  const int first = begin * kTile, n = std::min(end * kTile, network_.registers[op.gated].width) - first;
  for (int row = first_row; row < last_row; ++row)
    kernels_.gated(gate.row(row) + first, up.row(row) + first, out.row(row) + first, n, op.gate);
}

// K and V that the thread will attend to next; null where all is asked for, or where rows are so few that
// memory is busy with weights all the time. Up to eight rows want it in the second-level cache, so it has to
// fit there; what more rows ask for may go on to the third.
KvAhead* Forward::kv_ahead(const Instruction& op, int thread) {
  constexpr int kTooFew = Acts::kBlock / 2;
  constexpr size_t kMostOfFew = 512 * 1024, kMostOfMany = 4 * 1024 * 1024;
  if (op.next_attention == kNone || row_count(op) <= kTooFew) return nullptr;
  KvAhead& kv = kv_ahead_[thread];
  kv.look_at(network_.instructions[op.next_attention], deal(op.next_attention), kv_, thread,
             plan_->n_rows <= Acts::kBlock ? kMostOfFew : kMostOfMany);
  return kv.any_left() ? &kv : nullptr;
}

// Notes what this thread's range of a later linear instruction holds, to be fetched while it waits: so
// memory is busy while rows are normed and attended to.
void Forward::look_ahead(size_t index, int thread) {
  const Instruction& op = network_.instructions[index];
  Ahead& ahead = ahead_[thread];
  ahead.clear();
  int begin, end, offset = 0;
  range(op.n_tiles, thread, &begin, &end);
  for (const Part& part : op.parts) {
    const Packed& w = network_.matrices[part.matrix];
    const int first = std::max(begin - offset, 0), last = std::min(end - offset, w.n_tiles);
    if (op.gated == kNone) offset += w.n_tiles;
    if (first < last) ahead.add(w.tile(first), (size_t)(last - first) * w.tile_bytes);
  }
}

}  // namespace unspool
