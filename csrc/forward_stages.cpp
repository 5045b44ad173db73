// What the stages of a forward pass are, and which units each is cut into for a plan.
//
// Of few rows, a linear instruction is a stage of its own: each thread computes columns of it for all rows,
// so that weights are read from memory once. Where rows are many (a wide pass), what they hold between two
// instructions then goes from core to core, which costs more. So there each thread takes blocks of rows
// through all instructions from one attention to the next.
//
// A block waits for no other: attention's items and kSelect begin stages of their own, and any other
// instruction reads, of what was computed before it, only the row that it writes. Nor does a row's result
// depend on the rows computed beside it, so both kinds of pass give the same bits.
#include <algorithm>

#include "forward.h"

namespace unspool {

namespace {

// Fewer rows of a plan are not many. Nor are they where all threads together would read weights faster than
// now: each passes over all of them, and so has to have the more rows the more threads there are.
constexpr int kWideRows = 32;
bool are_many(int64_t n_rows, int64_t n_threads) {
  return n_rows >= kWideRows && n_rows >= Acts::kBlock * n_threads * n_threads;
}
constexpr int kUneven = 32;  // the largest share may be that part larger than an even one
// Every block passes over all weights of its stage. Where these stay in a cache from one block to the next,
// small blocks let more of the rows' values stay, too.
constexpr int kBlockRows = 32, kLargeBlockRows = 128;

int pieces(int n, int of) {
  return (n + of - 1) / of;
}

// Rows [first, last) are the i-th of n even shares of whole grains.
void cut(int n_rows, int grain, int i, int n, int* first, int* last) {
  const int64_t grains = pieces(n_rows, grain);
  *first = (int)(grains * i / n) * grain;
  *last = std::min(n_rows, (int)(grains * (i + 1) / n) * grain);
}

}  // namespace

std::vector<Forward::Stage> Forward::make_stages(bool wide) const {
  std::vector<Stage> stages;
  for (size_t i = 0; i < network_.instructions.size(); ++i) {
    const Instruction& op = network_.instructions[i];
    const bool linear = op.kind == OpKind::kLinear;
    if (linear && (!wide || op.selected)) {
      stages.push_back({Stage::kTiles, i, {}});
      continue;
    }
    // A selection reads other rows, and spreads those that are wanted over the threads anew.
    if (stages.empty() || stages.back().kind != Stage::kRows || op.kind == OpKind::kSelect)
      stages.push_back({Stage::kRows, i, {}});
    if (op.kind != OpKind::kAttention) {
      stages.back().work.push_back({i, RowPart::kWhole});
      for (const Part& part : op.parts)
        stages.back().weight_bytes += network_.matrices[part.matrix].data_bytes;
      continue;
    }
    stages.back().work.push_back({i, RowPart::kStore});
    stages.push_back({Stage::kItems, i, {}});
    stages.push_back({Stage::kHeads, i, {}});
    stages.push_back({Stage::kRows, i, {{i, RowPart::kMerge}}});
  }
  return stages;
}

// Where whole blocks of eight leave some threads with more rows than others, more is lost than gained.
bool Forward::is_wide(const Plan& plan) const {
  const int n = pool_.size();
  if (!are_many(plan.n_rows, n)) return false;
  int most = 0;
  for (int t = 0; t < n; ++t) {
    int first, last;
    cut(plan.n_rows, Acts::kBlock, t, n, &first, &last);
    most = std::max(most, last - first);
  }
  return (int64_t)most * n <= plan.n_rows + plan.n_rows / kUneven;
}

int Forward::units(const Stage& stage) const {
  const Instruction& op = network_.instructions[stage.index];
  const int n_rows = row_count(op);
  switch (stage.kind) {
    case Stage::kRows:
      return row_units(stage, n_rows);
    case Stage::kTiles:
      return n_rows == 0 ? 0 : op.n_tiles;
    case Stage::kItems:
      return deal(stage.index).first(pool_.size());
    default:
      return merges_by_head(deal(stage.index)) ? n_rows * op.n_heads : 0;
  }
}

// As many for each thread, which are the smallest for which the rows are cut evenly.
int Forward::row_units(const Stage& stage, int n_rows) const {
  const int grains = pieces(n_rows, stage.grain());
  if (stage.weight_bytes == 0) return std::min(grains, pool_.size());
  const int most = stage.keeps_weights() ? kBlockRows : kLargeBlockRows;
  return pool_.size() * pieces(pieces(grains, pool_.size()), most / stage.grain());
}

void Forward::rows_of(const Stage& stage, int unit, int* first, int* last) const {
  cut(row_count(network_.instructions[stage.index]), stage.grain(), unit, stage.n_units, first, last);
}

// Of one thread in this pass, should it do all the work.
size_t Forward::most_laps() const {
  size_t n = 0;
  for (const Stage& stage : *stages_) n += 1 + stage.n_units * stage.work.size();
  return n;
}

}  // namespace unspool
