#include "network.h"

#include <string.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <stdexcept>

namespace unspool {

namespace {

size_t round_up(size_t x, size_t to) {
  return (x + to - 1) / to * to;
}

// Tiles [first, last) of one matrix.
struct Chunk {
  size_t matrix;  // of those to be packed
  int first, last;
};

struct PackJob {
  const std::vector<Network::Unpacked>& unpacked;
  const std::vector<Packed>& matrices;
  std::vector<Chunk> chunks;
  std::unique_ptr<std::atomic<int>[]> left;  // tiles of each matrix
  std::atomic<size_t> next{0};
  std::atomic<size_t> bad;  // the first with a value that is no finite number
};

void pack_work(void* context, int) {
  auto& job = *static_cast<PackJob*>(context);
  for (size_t i; (i = job.next.fetch_add(1)) < job.chunks.size();) {
    const Chunk& chunk = job.chunks[i];
    const auto& from = job.unpacked[chunk.matrix];
    const Packed& to = job.matrices[from.matrix];
    if (!repack_tiles(from.encoding, from.source, to, chunk.first, chunk.last)) {
      size_t bad = job.bad.load();
      while (chunk.matrix < bad && !job.bad.compare_exchange_weak(bad, chunk.matrix)) {
      }
    }
    const int n = chunk.last - chunk.first;
    if (job.left[chunk.matrix].fetch_sub(n) == n && from.is_mapped)
      release_mapped(from.source, row_bytes(from.encoding, to.k) * (size_t)to.n);
  }
}

bool writes(const Instruction& op, int reg) {
  if (op.out == reg) return true;
  for (const Part& part : op.parts)
    if (part.out == reg) return true;
  return false;
}

}  // namespace

int Network::plan_matrix(Encoding encoding, const uint8_t* source, size_t source_bytes, int n, int k,
                         bool is_mapped) {
  Packed matrix;
  if (!plan_layout(encoding, n, k, &matrix)) throw std::invalid_argument("matrix: encoding or size");
  if (source_bytes != row_bytes(encoding, k) * (size_t)n) throw std::invalid_argument("matrix: byte count");
  matrix.data = arena.take(matrix.data_bytes);
  unpacked.push_back({matrices.size(), encoding, source, is_mapped});
  matrices.push_back(matrix);
  return (int)matrices.size() - 1;
}

int Network::pack(Pool& pool) {
  constexpr int kTiles = 8;  // of a chunk: large enough that claiming one costs nothing beside it
  PackJob job = {unpacked, matrices, {}, nullptr, {0}, {unpacked.size()}};
  job.left.reset(new std::atomic<int>[unpacked.size()]);
  for (size_t i = 0; i < unpacked.size(); ++i) {
    const int n_tiles = matrices[unpacked[i].matrix].n_tiles;
    job.left[i].store(n_tiles);
    for (int t = 0; t < n_tiles; t += kTiles) job.chunks.push_back({i, t, std::min(t + kTiles, n_tiles)});
  }
  pool.run(pack_work, &job);
  const size_t bad = job.bad.load();
  const int result = bad < unpacked.size() ? (int)unpacked[bad].matrix : kNone;
  unpacked.clear();
  return result;
}

int Network::add_vector(const float* values, size_t n) {
  std::vector<float> vector(round_up(n, 32), 0.0f);
  memcpy(vector.data(), values, n * sizeof(float));
  vectors.push_back(std::move(vector));
  return (int)vectors.size() - 1;
}

int Network::add_register(int width) {
  if (width <= 0) throw std::invalid_argument("register: width");
  Register reg;
  reg.width = width;
  reg.stride = round_up((size_t)width, 32);
  registers.push_back(reg);
  return (int)registers.size() - 1;
}

int Network::add_rope(const double* inv_freq, size_t n, float magnitude) {
  RopeTable table;
  table.inv_freq.assign(inv_freq, inv_freq + n);
  table.magnitude = magnitude;
  ropes.push_back(std::move(table));
  return (int)ropes.size() - 1;
}

// A thread that has computed columns of gate and up has what it takes to gate them: then half as many values
// go from one thread to another.
void Network::gate_in_place() {
  for (size_t i = 0; i + 1 < instructions.size(); ++i) {
    Instruction &op = instructions[i], &next = instructions[i + 1];
    if (op.kind != OpKind::kLinear || next.kind != OpKind::kGated || op.parts.size() != 2) continue;
    const Part &gate = op.parts[0], &up = op.parts[1];
    if (gate.accumulate || up.accumulate || gate.out != next.x || up.out != next.y || next.out == op.x)
      continue;
    if (op.selected != next.selected || matrices[gate.matrix].n != matrices[up.matrix].n) continue;
    op.gated = next.out;
    op.gate = next.gate;
    next.gated_before = true;
  }
}

// Which forms each register has, and how the one in 8 bits is scaled: it must do for all who read it.
void Network::choose_forms() {
  std::vector<bool> wants_shifts(registers.size()), adds_half_sums(registers.size());
  for (const auto& op : instructions)
    for (const Part& part : op.parts) {
      const Packed& w = matrices[part.matrix];
      registers[op.x].quantized |= w.quantized();
      registers[op.x].halved |= w.reads_halves();
      registers[op.x].whole_groups |= w.whole_groups();
      registers[op.x].has_sums |= w.multiplies_sums();
      if (w.shifts()) wants_shifts[op.x] = true;
      if (w.adds_half_sums()) adds_half_sums[op.x] = true;
    }
  for (size_t i = 0; i < registers.size(); ++i)
    registers[i].shifts = wants_shifts[i] && !adds_half_sums[i] && !registers[i].whole_groups;
}

void Network::finish() {
  gate_in_place();
  choose_forms();
  size_t following = 0;
  for (int pass = 0; pass < 2; ++pass)  // the second knows what the last instruction is followed by
    for (size_t i = instructions.size(); i-- > 0;) {
      instructions[i].next_linear = following;
      if (instructions[i].kind == OpKind::kLinear) following = i;
    }
  int attention = kNone;
  for (size_t i = instructions.size(); i-- > 0;) {
    instructions[i].next_attention = attention;
    if (instructions[i].kind == OpKind::kAttention) attention = (int)i;
  }
  for (auto& op : instructions) {
    if (op.kind != OpKind::kLinear) continue;
    for (const Part& part : op.parts)
      op.n_tiles = matrices[part.matrix].n_tiles + (op.gated == kNone ? op.n_tiles : 0);
  }
  // The last writer of a register before its reader leaves the forms.
  for (size_t i = 0; i < instructions.size(); ++i) {
    const auto& reader = instructions[i];
    if (reader.kind != OpKind::kLinear || !registers[reader.x].has_forms()) continue;
    size_t j = i;
    while (j > 0 && !writes(instructions[j - 1], reader.x)) --j;
    if (j == 0) throw std::invalid_argument("linear: its input is never written");
    if (instructions[j - 1].kind == OpKind::kLinear || instructions[j - 1].kind == OpKind::kSoftCap)
      throw std::invalid_argument("linear: its input must come from a row-wise op");
    instructions[j - 1].leaves_forms = true;
  }
}

}  // namespace unspool
