// A network lowered to instructions over registers, with its packed weights. Built once, then only read.
#pragma once
#include <stddef.h>
#include <stdint.h>

#include <vector>

#include "kernels.h"
#include "memory.h"
#include "pool.h"
#include "repack.h"

namespace unspool {

enum class OpKind : uint8_t {
  kEmbed,
  kNorm,
  kLinear,
  kRope,
  kAttention,
  kGated,
  kAdd,
  kScale,
  kSoftCap,
  kSelect
};

constexpr int kNone = -1;
constexpr int kLogits = -2;  // the caller's (W, V) array in place of a register

// One matrix of a linear instruction; several that read the same input run as one.
struct Part {
  int matrix;
  int bias;  // vector or kNone
  int out;   // register or kLogits
  bool accumulate;
};

struct Instruction {
  OpKind kind;
  int x = kNone, y = kNone, z = kNone, out = kNone;  // registers
  int weight = kNone;                                // matrix (embed) or vector (norm)
  float factor = 0;                                  // eps, scale or cap
  int group = 0;                                     // norm: values a group; rope: head size
  int table = kNone;                                 // rope
  bool interleaved = false;                          // rope
  Gate gate = Gate::kSilu;
  int gated = kNone;           // linear of two parts, gate and up: what they make is left here, too
  bool gated_before = false;   // gated: done already, by the linear instruction before it
  bool leaves_forms = false;   // leave beside `out` the forms of it that products read
  size_t next_linear = 0;      // the linear instruction after it, the first after the last
  int next_attention = kNone;  // the attention after it
  bool selected = false;       // runs over the W wanted rows, not over all R
  std::vector<Part> parts;
  int n_tiles = 0;  // of all parts; of one where they are gated, which are computed in pairs
  AttentionShape shape = {};
  int layer = 0, n_heads = 0, n_kv_heads = 0;
};

struct Register {
  int width = 0;
  size_t stride = 0;  // width rounded up to 32
  // The forms of it that linear instructions read beside the floats: 8 bits, bfloat16.
  bool quantized = false, halved = false;
  bool has_forms() const { return quantized || halved; }
  bool whole_groups = false, shifts = false, has_sums = false;  // see Acts
};

struct RopeTable {
  std::vector<double> inv_freq;
  float magnitude = 1;
};

struct Network {
  Arena arena;  // of the packed matrices
  std::vector<Packed> matrices;
  struct Unpacked {
    size_t matrix;
    Encoding encoding;
    const uint8_t* source;
    bool is_mapped;
  };
  std::vector<Unpacked> unpacked;           // planned, and not yet packed
  std::vector<std::vector<float>> vectors;  // padded with zeros to a multiple of 32
  std::vector<Register> registers;
  std::vector<RopeTable> ropes;
  std::vector<Instruction> instructions;
  int vocab_size = 0;
  int context_length = 0;

  // A matrix that `pack` will read from `source`, which must stay until then. Throws std::invalid_argument
  // when the encoding and sizes do not fit the bytes given. The pages of a mapped file are given back as soon
  // as they are read.
  int plan_matrix(Encoding encoding, const uint8_t* source, size_t source_bytes, int n, int k,
                  bool is_mapped);
  // Packs what was planned, on all threads. The first matrix that holds what is no finite number, or kNone.
  int pack(Pool& pool);
  int add_vector(const float* values, size_t n);
  int add_register(int width);
  int add_rope(const double* inv_freq, size_t n, float magnitude);
  // That every instruction names what is there and that sizes fit. Throws std::invalid_argument.
  void check(int n_layers, int n_kv_heads, int head_dim) const;
  // Marks the forms in which linear instructions read registers, and what the linear instructions hold.
  // Throws std::invalid_argument where a linear instruction of quantized or bfloat16 weights reads what no
  // row-wise instruction wrote: such leave the forms.
  void finish();

 private:
  void gate_in_place();
  void choose_forms();
};

}  // namespace unspool
