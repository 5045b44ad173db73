// What Python sees of csrc/sampling: programs, and the pass of a step's rows through them.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "bindings_arrays.h"
#include "bindings_sampling.h"
#include "kernels.h"
#include "sampling/sampler.h"
#include "sampling/tally.h"

namespace nb = nanobind;
using namespace unspool;
using namespace unspool::sampling;

namespace {

using Logits = nb::ndarray<float, nb::ndim<2>, nb::device::cpu>;

void add_op(Program& program, int kind, double a, double b, double c, bool flag,
            const std::vector<int32_t>& ids, const std::vector<double>& values) {
  if (kind < 0 || kind >= (int)OpKind::kCount) throw std::invalid_argument("add: no such kind");
  const bool has_values = (OpKind)kind == OpKind::kBias;
  if (values.size() != (has_values ? ids.size() : 0)) throw std::invalid_argument("add: lengths");
  program.ops.push_back({(OpKind)kind, a, b, c, flag, ids, values});
}

// What jobs point to, while the interpreter runs other threads, which may empty the lists it came in.
struct Held {
  std::vector<nb::tuple> rows;
  std::vector<Vector<int32_t>> ids;
  std::vector<Vector<double>> values;
};

nb::tuple tuple_of(nb::handle object, size_t n_parts) {
  if (!nb::isinstance<nb::tuple>(object)) throw nb::type_error("a row is a tuple");
  const auto row = nb::borrow<nb::tuple>(object);
  if (row.size() != n_parts)
    throw std::invalid_argument("a row has " + std::to_string(n_parts) + " parts, got " +
                                std::to_string(row.size()));
  return row;
}

template <class T>
T part_of(nb::handle row, size_t index) {
  T part;
  if (!nb::try_cast(row[index], part))
    throw nb::type_error(("type or range of a row's part " + std::to_string(index)).c_str());
  return part;
}

// A program or a tally. None is null, and nothing is done to a row without a program.
template <class T>
const T* object_of(nb::handle row, size_t index) {
  return row[index].is_none() ? nullptr : part_of<const T*>(row, index);
}

// Without conversion: a copy would be another array than the one that is held.
template <class T>
const Vector<T>& array_of(nb::handle object, std::vector<Vector<T>>& held) {
  Vector<T> array;
  if (!nb::try_cast(object, array, false)) throw std::invalid_argument("run: type or layout of an array");
  return held.emplace_back(std::move(array));
}

void count_into(RowJob& job, const Tally& tally) {
  job.repetition = tally.listed(Tally::kRepetition);
  job.additive = tally.listed(Tally::kAdditive);
}

void follow_into(RowJob& job, double running, nb::handle dry, nb::handle banned, Held& held) {
  job.running = running;
  if (!dry.is_none()) {
    const nb::tuple edits = tuple_of(dry, 2);
    const auto& ids = array_of<int32_t>(edits[0], held.ids);
    const auto& values = array_of<double>(edits[1], held.values);
    if (ids.size() != values.size()) throw std::invalid_argument("run: lengths");
    job.dry = {ids.data(), values.data(), ids.size()};
  }
  if (!banned.is_none()) {
    const auto& ids = array_of<int32_t>(banned, held.ids);
    job.banned_next = {ids.data(), nullptr, ids.size()};
  }
}

// A row is None, to be left alone, or (program, seed, branch, position, n_output, running, tally, dry,
// banned, candidates); the three before the last may be None, see fused.py. The last is False for none,
// True for all, or how many of the first in order there must be.
RowJob job_of(const nb::tuple& row, float* logits, Held& held) {
  RowJob job = {};
  job.program = object_of<Program>(row, 0);
  job.logits = logits;
  job.seed = part_of<uint64_t>(row, 1);
  job.branch = part_of<uint32_t>(row, 2);
  job.position = part_of<uint32_t>(row, 3);
  job.n_output = part_of<uint32_t>(row, 4);
  if (const Tally* tally = object_of<Tally>(row, 6)) count_into(job, *tally);
  follow_into(job, part_of<double>(row, 5), row[7], row[8], held);
  return job;
}

int n_candidates_of(nb::handle asked) {
  if (nb::isinstance<nb::bool_>(asked)) return nb::cast<bool>(asked) ? -1 : 0;
  int n = 0;
  if (!nb::try_cast(asked, n) || n < 1) throw std::invalid_argument("run: number of candidates");
  return n;
}

nb::object answer_of(RowResult& result, bool wants_candidates) {
  if (!result.done) return nb::none();
  nb::object observed = result.has_observed ? nb::cast(result.observed) : nb::none();
  if (!wants_candidates) return nb::make_tuple(result.token_id, observed, nb::none(), nb::none());
  std::vector<int64_t> ids(result.candidates.size());
  std::vector<double> z(ids.size());
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = result.candidates[i].id, z[i] = result.candidates[i].z;
  return nb::make_tuple(result.token_id, observed, array_from(std::move(ids)), array_from(std::move(z)),
                        result.log_total);
}

void check_logits(const Logits& logits, size_t n_rows) {
  const size_t n_vocab = logits.shape(1);
  if (logits.shape(0) != n_rows) throw std::invalid_argument("run: one row for each line of logits");
  if (n_vocab == 0 || n_vocab > INT32_MAX / 2) throw std::invalid_argument("run: size of the vocabulary");
  if (n_rows > 0 && n_vocab > 1 && logits.stride(1) != 1)
    throw std::invalid_argument("run: lines of logits must be contiguous");
}

nb::list run(Sampler& sampler, Logits logits, nb::list rows) {
  const size_t n_rows = rows.size(), n_vocab = logits.shape(1);
  check_logits(logits, n_rows);
  std::vector<RowJob> jobs(n_rows);
  std::vector<int> n_candidates(n_rows);
  Held held;
  for (size_t i = 0; i < n_rows; ++i) {
    if (rows[i].is_none()) continue;
    const nb::tuple& row = held.rows.emplace_back(tuple_of(rows[i], 10));
    jobs[i] = job_of(row, logits.data() + (int64_t)i * logits.stride(0), held);
    n_candidates[i] = n_candidates_of(row[9]);
  }
  std::vector<RowResult> results(n_rows);
  {
    nb::gil_scoped_release release;
    sampler.run(jobs, (int)n_vocab, n_candidates, results);
  }
  nb::list answers;
  for (size_t i = 0; i < n_rows; ++i) answers.append(answer_of(results[i], n_candidates[i] != 0));
  return answers;
}

// Rows of the same branches, step after step: what of them stays the same, and where their texts are.
class StandingRows {
 public:
  // Each is (program, seed, branch, n_prompt, token_ids, tally or None).
  explicit StandingRows(nb::list rows) {
    for (nb::handle object : rows) {
      nb::tuple row = tuple_of(object, 6);
      RowJob job = {};
      job.program = object_of<Program>(row, 0);
      job.seed = part_of<uint64_t>(row, 1);
      job.branch = part_of<uint32_t>(row, 2);
      const auto n_prompt = part_of<uint32_t>(row, 3);
      const auto token_ids = part_of<nb::list>(row, 4);
      const Tally* tally = object_of<Tally>(row, 5);
      rows_.push_back({job, n_prompt, token_ids, tally, std::move(row)});
    }
  }

  size_t size() const { return rows_.size(); }
  std::vector<RowJob> jobs(const Logits& logits) const {
    std::vector<RowJob> jobs;
    jobs.reserve(rows_.size());
    for (const Standing& row : rows_) {
      RowJob job = row.job;
      job.logits = logits.data() + (int64_t)jobs.size() * logits.stride(0);
      job.position = (uint32_t)nb::len(row.token_ids);
      job.n_output = job.position - row.n_prompt;
      if (row.tally) count_into(job, *row.tally);
      jobs.push_back(job);
    }
    return jobs;
  }

 private:
  struct Standing {
    RowJob job;
    uint32_t n_prompt;
    nb::list token_ids;
    const Tally* tally;
    nb::tuple kept;  // what the pointers point to
  };
  std::vector<Standing> rows_;
};

// `changing` are (row, running, dry, banned) of those that have such a thing.
nb::list choose(Sampler& sampler, Logits logits, const StandingRows& rows, nb::list changing) {
  check_logits(logits, rows.size());
  std::vector<RowJob> jobs = rows.jobs(logits);
  Held held;
  for (nb::handle object : changing) {
    const nb::tuple row = tuple_of(object, 4);
    const auto at = part_of<size_t>(row, 0);
    if (at >= jobs.size()) throw std::invalid_argument("choose: no row " + std::to_string(at));
    follow_into(jobs[at], part_of<double>(row, 1), row[2], row[3], held);
  }
  const std::vector<int> n_candidates(jobs.size(), 0);
  std::vector<RowResult> results(jobs.size());
  {
    nb::gil_scoped_release release;
    sampler.run(jobs, (int)logits.shape(1), n_candidates, results);
  }
  nb::list answers;
  for (const RowResult& result : results) {
    if (!result.done)
      answers.append(nb::none());
    else
      answers.append(
          nb::make_tuple(result.token_id, result.has_observed ? nb::cast(result.observed) : nb::none()));
  }
  return answers;
}

}  // namespace

void unspool::bind_sampling(nb::module_& m) {
  nb::class_<Program>(m, "Program")
      .def(
          "__init__", [](Program* self, bool greedy) { new (self) Program{{}, greedy}; }, nb::arg("greedy"))
      .def("add", &add_op, nb::arg("kind"), nb::arg("a"), nb::arg("b"), nb::arg("c"), nb::arg("flag"),
           nb::arg("ids"), nb::arg("values"));
  nb::class_<Tally>(m, "Tally")
      .def(nb::init<>())
      .def(
          "add",
          [](Tally& tally, int scope, int32_t token_id, int32_t by) {
            if (scope != Tally::kRepetition && scope != Tally::kAdditive)
              throw std::invalid_argument("add: no such scope");
            tally.add((Tally::Scope)scope, token_id, by);
          },
          nb::arg("scope"), nb::arg("token_id"), nb::arg("by"))
      .def("copy", [](const Tally& tally) { return Tally(tally); })
      .def("counts", [](const Tally& tally) {
        nb::dict counts;
        const auto repetition = tally.listed(Tally::kRepetition), additive = tally.listed(Tally::kAdditive);
        for (size_t i = 0; i < tally.size(); ++i)
          counts[nb::int_(repetition.ids[i])] = nb::make_tuple(repetition.values[i], additive.values[i]);
        return counts;
      });
  nb::class_<StandingRows>(m, "StandingRows").def(nb::init<nb::list>(), nb::arg("rows"));
  nb::class_<Sampler>(m, "Sampler")
      .def(
          "__init__",
          [](Sampler* self, int n_threads, const std::string& isa) {
            const Kernels& kernels = kernels_named(isa.c_str());
            new (self) Sampler(*vectors_named(kernels.name), std::make_unique<Crew>(n_threads));
          },
          nb::arg("n_threads"), nb::arg("isa"))
      .def("run", &run, nb::arg("logits").noconvert(), nb::arg("rows"))
      .def("choose", &choose, nb::arg("logits").noconvert(), nb::arg("rows"), nb::arg("changing"))
      .def_prop_ro("isa", [](const Sampler& sampler) { return std::string(sampler.isa()); });
}
