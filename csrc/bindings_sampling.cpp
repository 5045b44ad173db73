// What Python sees of csrc/sampling: programs, and the pass of a step's rows through them.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <stdexcept>

#include "bindings_sampling.h"
#include "kernels.h"
#include "sampling/sampler.h"

namespace nb = nanobind;
using namespace unspool::sampling;

namespace {

template <typename T>
using Vector = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Logits = nb::ndarray<float, nb::ndim<2>, nb::device::cpu>;

void add_op(Program& program, int kind, double a, double b, double c, bool flag,
            const std::vector<int32_t>& ids, const std::vector<double>& values) {
  if (kind < 0 || kind >= (int)OpKind::kCount) throw std::invalid_argument("add: no such kind");
  if (!values.empty() && values.size() != ids.size()) throw std::invalid_argument("add: lengths");
  program.ops.push_back({(OpKind)kind, a, b, c, flag, ids, values});
}

// Without conversion: a copy would not outlive this call.
template <class T>
Vector<T> array_of(nb::handle object) {
  Vector<T> array;
  if (!nb::try_cast(object, array, false)) throw std::invalid_argument("run: type or layout of an array");
  return array;
}

template <class T>
Listed<T> listed(nb::handle ids, nb::handle values) {
  const auto the_ids = array_of<int32_t>(ids);
  const auto the_values = array_of<T>(values);
  if (the_ids.size() != the_values.size()) throw std::invalid_argument("run: lengths");
  return {the_ids.data(), the_values.data(), the_ids.size()};
}

template <class T>
nb::object new_array(std::vector<T>&& values) {
  auto* owned = new std::vector<T>(std::move(values));
  nb::capsule owner(owned, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  return nb::cast(nb::ndarray<nb::numpy, T>(owned->data(), {owned->size()}, owner));
}

// A row is None, to be left alone, or (program, seed, branch, position, n_output, running, counts, dry,
// banned, candidates); the three before the last are None or arrays, see fused.py. The last is False for
// none, True for all, or how many of the first in order there must be.
RowJob job_of(nb::tuple row, float* logits) {
  if (row.size() != 10) throw std::invalid_argument("run: a row has ten parts");
  RowJob job = {};
  job.program = nb::cast<const Program*>(row[0]);
  job.logits = logits;
  job.seed = nb::cast<uint64_t>(row[1]);
  job.branch = nb::cast<uint32_t>(row[2]);
  job.position = nb::cast<uint32_t>(row[3]);
  job.n_output = nb::cast<uint32_t>(row[4]);
  job.running = nb::cast<double>(row[5]);
  if (!row[6].is_none()) {
    job.repetition = listed<int32_t>(row[6][0], row[6][1]);
    job.additive = listed<int32_t>(row[6][0], row[6][2]);
  }
  if (!row[7].is_none()) job.dry = listed<double>(row[7][0], row[7][1]);
  if (!row[8].is_none()) {
    const auto ids = array_of<int32_t>(row[8]);
    job.banned_next = {ids.data(), nullptr, ids.size()};
  }
  return job;
}

int n_candidates_of(nb::handle asked) {
  if (nb::isinstance<nb::bool_>(asked)) return nb::cast<bool>(asked) ? -1 : 0;
  const int n = nb::cast<int>(asked);
  if (n < 1) throw std::invalid_argument("run: number of candidates");
  return n;
}

nb::object answer_of(RowResult& result, bool wants_candidates) {
  if (!result.done) return nb::none();
  nb::object observed = result.has_observed ? nb::cast(result.observed) : nb::none();
  if (!wants_candidates) return nb::make_tuple(result.token_id, observed, nb::none(), nb::none());
  std::vector<int64_t> ids(result.candidates.size());
  std::vector<double> z(ids.size());
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = result.candidates[i].id, z[i] = result.candidates[i].z;
  return nb::make_tuple(result.token_id, observed, new_array(std::move(ids)), new_array(std::move(z)),
                        result.log_total);
}

nb::list run(Sampler& sampler, Logits logits, nb::list rows) {
  const size_t n_rows = logits.shape(0), n_vocab = logits.shape(1);
  if (rows.size() != n_rows) throw std::invalid_argument("run: one row for each line of logits");
  if (n_vocab == 0 || n_vocab > INT32_MAX / 2) throw std::invalid_argument("run: size of the vocabulary");
  if (n_vocab > 1 && logits.stride(1) != 1)
    throw std::invalid_argument("run: lines of logits must be contiguous");
  std::vector<RowJob> jobs(n_rows);
  std::vector<int> n_candidates(n_rows);
  for (size_t i = 0; i < n_rows; ++i) {
    if (rows[i].is_none()) continue;
    const nb::tuple row = nb::cast<nb::tuple>(rows[i]);
    jobs[i] = job_of(row, logits.data() + (int64_t)i * logits.stride(0));
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

}  // namespace

void unspool::bind_sampling(nb::module_& m) {
  nb::class_<Program>(m, "Program")
      .def(
          "__init__", [](Program* self, bool greedy) { new (self) Program{{}, greedy}; }, nb::arg("greedy"))
      .def("add", &add_op, nb::arg("kind"), nb::arg("a"), nb::arg("b"), nb::arg("c"), nb::arg("flag"),
           nb::arg("ids"), nb::arg("values"));
  nb::class_<Sampler>(m, "Sampler")
      .def(
          "__init__",
          [](Sampler* self, int n_threads, const std::string& isa) {
            const unspool::Kernels* kernels = unspool::select_kernels(isa.c_str());
            if (!kernels)
              throw std::invalid_argument("instruction set not known or not on this machine: " + isa);
            new (self) Sampler(*vectors_named(kernels->name), std::make_unique<Crew>(n_threads));
          },
          nb::arg("n_threads"), nb::arg("isa"))
      .def("run", &run, nb::arg("logits").noconvert(), nb::arg("rows"))
      .def_prop_ro("isa", [](const Sampler& sampler) { return std::string(sampler.isa()); });
}
