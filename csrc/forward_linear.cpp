// Linear instructions of a forward pass: tiles of packed weights by rows. The arithmetic is in
// kernels/gemm_quant.h and kernels/gemm_float.h.
#include <algorithm>

#include "forward.h"

namespace unspool {

// Every thread walks a range of tiles of its own, in order, so that its prefetches run ahead into its own
// work, and then helps the others with what is left of theirs.
int Forward::linear(const Stage& stage, size_t number, int thread) {
  const Instruction& op = network_.instructions[stage.index];
  const int n_threads = pool_.size();
  // Few rows leave memory idle at times: K and V of the next attention come in between tiles.
  const bool fetch =
      row_count(op) <= Acts::kBlock && look_at_kv(network_.next_attention[stage.index], thread);
  const int tiles_at_once = op.gated == kNone ? 2 : 1;  // or one of gate and one of up
  const int stride = fetch ? tiles_at_once * Acts::kBlock / row_count(op) : op.n_tiles;
  int n_done = 0;
  for (int i = 0; i < n_threads; ++i) {
    const int owner = (thread + i) % n_threads;
    int first, last;
    range(op.n_tiles, owner, &first, &last);
    // Many rows pass over each part from far, so it had better not be small.
    const int least = row_count(op) > Acts::kBlock ? std::max(1, (last - first) / 8) : 1;
    int begin, end;
    while (take(counter(number, owner), last - first, least, &begin, &end)) {
      for (int t = begin; t < end; t += stride) {
        tiles(op, first + t, first + std::min(t + stride, end), thread);
        if (fetch) bite_kv(thread);
      }
      n_done += end - begin;
    }
  }
  look_ahead(network_.next_linear[stage.index], thread);
  return n_done;
}

// Takes a part of what is left of n units of work, `least` or more: large parts first, so that all threads
// end together.
bool Forward::take(std::atomic<int>& next, int n, int least, int* begin, int* end) {
  *begin = next.load(std::memory_order_relaxed);
  do {
    if (*begin >= n) return false;
    *end = std::min(n, *begin + std::max(least, (n - *begin) / 4));
  } while (!next.compare_exchange_weak(*begin, *end, std::memory_order_relaxed));
  return true;
}

// Tiles [begin, end) of the instruction, counted over all its parts, or of both where they are gated.
void Forward::tiles(const Instruction& op, int begin, int end, int thread) {
  if (op.gated != kNone) {
    for (const Part& part : op.parts) product(op, part, begin, end, thread);
    return gate_columns(op, begin, end);
  }
  int offset = 0;  // tiles of the parts before this one
  for (const Part& part : op.parts) {
    const int n_tiles = network_.matrices[part.matrix].n_tiles;
    const int first = std::max(begin - offset, 0), last = std::min(end - offset, n_tiles);
    offset += n_tiles;
    if (first < last) product(op, part, first, last, thread);
  }
}

void Forward::product(const Instruction& op, const Part& part, int first, int last, int thread) {
  const Packed& w = network_.matrices[part.matrix];
  const float* bias = part.bias == kNone ? nullptr : network_.vectors[part.bias].data();
  if (w.quantized())
    kernels_.gemm_quant(w, first, last, acts(op.x, op), rows(part.out), bias, part.accumulate,
                        gemm_scratch_.as<float>() + (size_t)thread * kGemmScratch);
  else
    kernels_.gemm_float(w, first, last, rows(op.x), 0, row_count(op), rows(part.out), bias, part.accumulate);
}

void Forward::gate_columns(const Instruction& op, int begin, int end) {
  const Rows gate = rows(op.parts[0].out), up = rows(op.parts[1].out), out = rows(op.gated);
  const int first = begin * kTile, n = std::min(end * kTile, network_.registers[op.gated].width) - first;
  for (int row = 0; row < row_count(op); ++row)
    kernels_.gated(gate.row(row) + first, up.row(row) + first, out.row(row) + first, n, op.gate);
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
