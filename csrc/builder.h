// Instructions of a network, one call each. Whether they make sense is checked when all are there.
#pragma once
#include <stdexcept>
#include <tuple>
#include <vector>

#include "network.h"

namespace unspool {

class Builder {
 public:
  void embed(int out, int matrix, float factor) {
    auto& op = push(OpKind::kEmbed, false);
    op.out = out, op.weight = matrix, op.factor = factor;
  }
  void norm(int out, int x, int vector, float eps, int group, bool selected) {
    auto& op = push(OpKind::kNorm, selected);
    op.out = out, op.x = x, op.weight = vector, op.factor = eps, op.group = group;
  }
  // Parts are (matrix, bias or kNone, out, accumulate).
  void linear(int x, const std::vector<std::tuple<int, int, int, bool>>& parts, bool selected) {
    if (parts.empty()) throw std::invalid_argument("linear: no part");
    for (const auto& part : parts)
      if (matrix(part).quantized() != matrix(parts[0]).quantized())
        throw std::invalid_argument("linear: quantized and float matrices in one instruction");
    auto& op = push(OpKind::kLinear, selected);
    op.x = x;
    for (const auto& [matrix, bias, out, accumulate] : parts)
      op.parts.push_back({matrix, bias, out, accumulate});
  }
  void rope(int x, int table, int head_dim, bool interleaved) {
    auto& op = push(OpKind::kRope, false);
    op.x = op.out = x, op.table = table, op.group = head_dim, op.interleaved = interleaved;
  }
  void attention(int out, int q, int k, int v, int layer, int n_heads, int n_kv_heads, float scale,
                 float softcap, int window) {
    auto& op = push(OpKind::kAttention, false);
    op.out = out, op.x = q, op.y = k, op.z = v, op.layer = layer, op.n_heads = n_heads;
    op.n_kv_heads = n_kv_heads;
    op.shape.scale = scale, op.shape.softcap = softcap, op.shape.window = window;
  }
  void gated(int out, int gate, int up, bool gelu, bool selected) {
    auto& op = push(OpKind::kGated, selected);
    op.out = out, op.x = gate, op.y = up, op.gate = gelu ? Gate::kGeluTanh : Gate::kSilu;
  }
  void add(int out, int a, int b, bool selected) {
    auto& op = push(OpKind::kAdd, selected);
    op.out = out, op.x = a, op.y = b;
  }
  void scale(int out, int x, float factor, bool selected) {
    auto& op = push(OpKind::kScale, selected);
    op.out = out, op.x = x, op.factor = factor;
  }
  void softcap(int out, int x, float cap, bool selected) {
    auto& op = push(OpKind::kSoftCap, selected);
    op.out = out, op.x = x, op.factor = cap;
  }
  void select(int out, int x) {
    auto& op = push(OpKind::kSelect, true);
    op.out = out, op.x = x;
  }

 protected:
  void require_packed() const {
    if (packing_) throw std::invalid_argument("matrices are being packed in another thread; wait for that");
  }
  void require_open() const {
    require_packed();
    if (finished_) throw std::invalid_argument("the network is finished; nothing can be added");
  }

  Network network_;
  bool finished_ = false;
  bool packing_ = false;

 private:
  const Packed& matrix(const std::tuple<int, int, int, bool>& part) const {
    return network_.matrices.at(std::get<0>(part));
  }
  Instruction& push(OpKind kind, bool selected) {
    require_open();
    network_.instructions.emplace_back();
    network_.instructions.back().kind = kind;
    network_.instructions.back().selected = selected;
    return network_.instructions.back();
  }
};

}  // namespace unspool
