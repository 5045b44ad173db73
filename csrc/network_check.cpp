// Whether instructions name what is there, and whether the sizes fit. A network comes from our own builder,
// so a bad one is our mistake; but it must never reach memory.
#include <stdexcept>
#include <string>

#include "network.h"

namespace unspool {

namespace {

class Check {
 public:
  Check(const Network& network, int n_layers, int n_kv_heads, int head_dim)
      : network_(network), n_layers_(n_layers), n_kv_heads_(n_kv_heads), head_dim_(head_dim) {}

  void check(const Instruction& op) {
    rows(op);
    switch (op.kind) {
      case OpKind::kEmbed:
        return embed(op);
      case OpKind::kNorm:
        return norm(op);
      case OpKind::kLinear:
        for (const Part& part : op.parts) product(op, part);
        return;
      case OpKind::kRope:
        return rope(op);
      case OpKind::kAttention:
        return attention(op);
      case OpKind::kGated:
        require(op.out != kLogits, "a gate into logits");
        [[fallthrough]];
      case OpKind::kAdd:
        return require(width(op.y) == width(op.out) && width(op.x) == width(op.out), "widths");
      default:
        return require(width(op.x) == width(op.out), "widths");
    }
  }

 private:
  static void require(bool holds, const char* what) {
    if (!holds) throw std::invalid_argument(std::string("instruction: ") + what);
  }
  template <class T>
  static const T& at(const std::vector<T>& all, int index, const char* what) {
    require(index >= 0 && (size_t)index < all.size(), what);
    return all[index];
  }
  int width(int reg) const {
    return reg == kLogits ? network_.vocab_size : at(network_.registers, reg, "no such register").width;
  }
  const Packed& matrix(int index) const { return at(network_.matrices, index, "no such matrix"); }
  size_t length(int vector) const { return at(network_.vectors, vector, "no such vector").size(); }

  // From the first selection on all run over the wanted rows, and only of these are there logits.
  void rows(const Instruction& op) {
    if (op.kind == OpKind::kSelect) {
      require(op.x != kLogits && op.x != op.out, "what a selection reads");
      selected_ = true;
    }
    require(op.selected == selected_, "rows before or after the first selection");
    bool has_logits = false;
    for (int reg : {op.x, op.y, op.z, op.out}) has_logits |= reg == kLogits;
    for (const Part& part : op.parts) has_logits |= part.out == kLogits;
    require(selected_ || !has_logits, "logits of rows that are not selected");
  }
  void embed(const Instruction& op) const {
    require(matrix(op.weight).n >= network_.vocab_size,
            "an embedding of fewer tokens than the vocabulary has");
    require(matrix(op.weight).k == width(op.out), "width of an embedding");
  }
  void norm(const Instruction& op) const {
    const int n = width(op.out);
    require(width(op.x) == n && op.group > 0 && n % op.group == 0, "group of a norm");
    require(length(op.weight) >= (size_t)op.group, "length of a norm's weight");
  }
  void product(const Instruction& op, const Part& part) const {
    require(op.x != kLogits && matrix(part.matrix).k == width(op.x), "inputs of a matrix");
    require(matrix(part.matrix).n == width(part.out), "outputs of a matrix");
    require(part.bias == kNone || length(part.bias) >= (size_t)matrix(part.matrix).n, "length of a bias");
  }
  void rope(const Instruction& op) const {
    const size_t n = at(network_.ropes, op.table, "no such rope").inv_freq.size();
    require(op.x != kLogits && op.group > 0 && width(op.x) % op.group == 0, "head size of a rope");
    require(2 * n <= (size_t)op.group, "a rope of more dimensions than a head has");
  }
  void attention(const Instruction& op) const {
    require(op.layer >= 0 && op.layer < n_layers_, "no such layer");
    require(op.n_kv_heads > 0 && op.n_kv_heads <= n_kv_heads_, "number of K and V heads");
    require(op.n_heads > 0 && op.n_heads % op.n_kv_heads == 0, "number of heads");
    require(op.shape.window >= 0, "window");
    for (int reg : {op.x, op.out}) require(width(reg) == (int64_t)op.n_heads * head_dim_, "width of a query");
    for (int reg : {op.y, op.z}) require(width(reg) == (int64_t)op.n_kv_heads * head_dim_, "width of K or V");
  }

  const Network& network_;
  const int n_layers_, n_kv_heads_, head_dim_;
  bool selected_ = false;  // by an instruction before
};

}  // namespace

void Network::check(int n_layers, int n_kv_heads, int head_dim) const {
  if (!unpacked.empty()) throw std::invalid_argument("finish: matrices are planned and not packed");
  if (instructions.empty()) throw std::invalid_argument("finish: there are no instructions");
  Check check(*this, n_layers, n_kv_heads, head_dim);
  for (const Instruction& op : instructions) check.check(op);
}

}  // namespace unspool
