// What is to be done to a row of logits, and what comes out: plain data.
#pragma once
#include <stddef.h>
#include <stdint.h>

#include <vector>

namespace unspool::sampling {

// In the stages' order of birth; the numbers are those that fused.py writes into a program.
enum class OpKind : uint8_t {
  kAllow,        // ids of the op: the only candidates
  kBan,          // ids of the op: no candidates
  kBanNext,      // ids of the row: no candidates
  kMinTokens,    // ids of the op: no candidates in the first a tokens of the answer, if others are left
  kRepetition,   // a: what occurred has z / a when z > 0, else z * a
  kFrequency,    // a: z -= a * count
  kPresence,     // a: z -= a
  kDry,          // z -= the row's amounts
  kBias,         // ids and values of the op: z += value
  kTemperature,  // a: T
  kDynatemp,     // a, b: T of no and of all entropy, c: exponent
  kEdt,          // a: T0, b: N, c: theta
  kSmoothing,    // a: factor, b: curve
  kTopNSigma,    // a: how many deviations
  kTopK,         // a: how many; flag: all that equal the last stay
  kTopP,         // a: mass
  kMinP,         // a: ln of the share
  kTypical,      // a: mass; flag: it must be passed; b: 1 when all as far as the last stay
  kTopH,         // a: share of the entropy; b: how many candidates are looked at, 0 for all
  kEpsilon,      // a: ln epsilon; flag: all that equal the top stay
  kEta,          // a: ln epsilon; flag
  kTopA,         // a: ln a; flag
  kTailFree,     // a: share of the bends
  kXtc,          // a: probability, b: ln of the threshold; ids of the op: spared
  kMirostat,     // a: version; flag: surprise is taken after the cut
  kAdaptive,     // a: target
  kCount
};

// Token ids (n,), and a number for each (n,) or null.
template <class Value>
struct Listed {
  const int32_t* ids = nullptr;
  const Value* values = nullptr;
  size_t n = 0;
};

struct Op {
  OpKind kind;
  double a = 0, b = 0, c = 0;
  bool flag = false;
  std::vector<int32_t> ids;
  std::vector<double> values;
};

// Fixed for a request.
struct Program {
  std::vector<Op> ops;
  bool greedy = false;  // the largest logit is taken and nothing is drawn
};

// One row of one step.
struct RowJob {
  const Program* program;  // null: nothing is done
  float* logits;           // (V,), written to while the row is worked on, and put back
  uint64_t seed;
  uint32_t branch;
  uint32_t position;
  uint32_t n_output;            // tokens of the answer so far
  double running;               // mirostat's mu or adaptive-p's average
  Listed<int32_t> repetition;   // counts of what occurred, and where repetition and the additive
  Listed<int32_t> additive;     // penalties look at; the same ids
  Listed<double> dry;           // what DRY takes off
  Listed<int32_t> banned_next;  // no values
};

struct Candidate {
  double z;
  int32_t id;
};

// The order of candidates: by logit, largest first, then by id. It breaks every tie.
inline bool before(const Candidate& a, const Candidate& b) {
  return a.z > b.z || (a.z == b.z && a.id < b.id);
}

struct RowResult {
  bool done = false;  // false: the stages must work this row out (no candidate, no number, no memory)
  int32_t token_id = -1;
  bool has_observed = false;
  double observed = 0;                // of the chosen token: see types.Chosen
  std::vector<Candidate> candidates;  // ids ascending, when they were asked for
  double log_total = 0;               // then: ln of the sum of e^(z - top) over all survivors
};

}  // namespace unspool::sampling
