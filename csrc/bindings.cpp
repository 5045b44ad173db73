// What Python sees of the engine; the other bindings_* have the rest, and nothing else here knows Python.
// Arrays and integers in, arrays out; the interpreter lock is released for loading and for the whole forward
// pass.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>
#include <string.h>

#include <memory>
#include <stdexcept>
#include <string>

#include "bindings_arrays.h"
#include "bindings_fit.h"
#include "bindings_sampling.h"
#include "bindings_strings.h"
#include "bindings_turn.h"
#include "builder.h"
#include "forward.h"
#include "kv_store.h"
#include "limits.h"
#include "matrix_probe.h"
#include "pool_helpers.h"
#include "reused.h"
#include "sampling/sampler.h"
#include "turn.h"

namespace nb = nanobind;
using namespace unspool;

namespace {

// An array of rows in memory that is used again.
NewArray<float> reused_array(const std::shared_ptr<Reused>& home, size_t rows, size_t columns, float** data) {
  auto memory = std::make_unique<std::shared_ptr<void>>(Reused::take(home, rows * columns * sizeof(float)));
  *data = static_cast<float*>(memory->get());
  nb::capsule owner(memory.get(), [](void* p) noexcept { delete static_cast<std::shared_ptr<void>*>(p); });
  memory.release();
  return NewArray<float>(*data, {rows, columns}, owner);
}

int checked_threads(int n_threads) {
  if (n_threads < 1) throw std::invalid_argument("threads: at least one");
  return n_threads;
}

class Engine : public Builder {
 public:
  Engine(int n_threads, const std::string& isa)
      : kernels_(kernels_named(isa.c_str())), pool_(checked_threads(n_threads)) {}

  int plan_matrix(int encoding, Vector<uint8_t> data, int n, int k, bool is_mapped) {
    require_open();
    const int matrix =
        network_.plan_matrix(static_cast<Encoding>(encoding), data.data(), data.size(), n, k, is_mapped);
    sources_.push_back(std::move(data));
    return matrix;
  }
  int pack() {
    require_open();
    struct Packing {
      explicit Packing(bool& now) : now(now) { now = true; }
      ~Packing() { now = false; }
      bool& now;
    } const packing(packing_);  // what others would add meanwhile is refused
    int bad;
    {
      const InTurn turn(turn_);
      bad = network_.pack(pool_);
    }
    sources_.clear();
    return bad;
  }
  int add_matrix(int encoding, Vector<uint8_t> data, int n, int k) {
    const int matrix = plan_matrix(encoding, std::move(data), n, k, false);
    if (pack() != kNone) throw std::overflow_error("matrix: a value or scale is infinite or not a number");
    return matrix;
  }
  int add_vector(Vector<float> values) {
    require_open();
    return network_.add_vector(values.data(), values.size());
  }
  int add_register(int width) {
    require_open();
    return network_.add_register(width);
  }
  int add_rope(Vector<double> inv_freq, float magnitude) {
    require_open();
    return network_.add_rope(inv_freq.data(), inv_freq.size(), magnitude);
  }

  void finish(int vocab_size, int context_length, int n_layers, int n_kv_heads, int head_dim, int n_pages,
              int page_size) {
    require_open();
    if (vocab_size < 1 || context_length < 1 || n_layers < 1 || n_kv_heads < 1 || n_pages < 1)
      throw std::invalid_argument("finish: a size below 1");
    if (head_dim < 1 || head_dim > kMaxHeadDim || page_size < 16 || page_size % 16 || page_size > kSegment ||
        kSegment % page_size)
      throw std::invalid_argument("finish: head or page size");
    network_.vocab_size = vocab_size;
    network_.context_length = context_length;
    network_.check(n_layers, n_kv_heads, head_dim);
    finished_ = true;  // whatever happens from here on: it changes the instructions
    kv_ = KvStore(n_pages, page_size, n_layers, n_kv_heads, head_dim);
    for (auto& op : network_.instructions) {
      op.shape.head_dim = head_dim;
      op.shape.head_padded = kv_.head_padded;
      op.shape.page_size = page_size;
      op.shape.page_stride = kv_.page_values;
    }
    network_.finish();
    forward_ = std::make_unique<Forward>(network_, kernels_, pool_, kv_);
  }

  NewArray<float> forward(Vector<int32_t> token_ids, Vector<int32_t> seq_start, Vector<int32_t> n_past,
                          Vector<int32_t> page_table, Vector<int32_t> page_start,
                          Vector<int32_t> logits_rows) {
    require_finished();
    if (seq_start.size() != n_past.size() + 1 || page_start.size() != seq_start.size())
      throw std::invalid_argument("plan: lengths of seq_start, n_past and page_start");
    const Plan plan = {(int)token_ids.size(),  (int)n_past.size(), (int)logits_rows.size(),
                       (int)page_table.size(), token_ids.data(),   seq_start.data(),
                       n_past.data(),          page_table.data(),  page_start.data(),
                       logits_rows.data()};
    float* logits;
    auto out = reused_array(logits_memory_, logits_rows.size(), network_.vocab_size, &logits);
    const InTurn turn(turn_);
    forward_->run(plan, logits);
    return out;
  }

  sampling::Sampler* sampler() {
    return new sampling::Sampler(*sampling::vectors_named(kernels_.name),
                                 std::make_unique<PoolHelpers>(pool_, turn_));
  }

  void copy_page(int source, int target) {
    const uint16_t* from = kv_.page(source);
    uint16_t* to = kv_.page(target);
    const InTurn turn(turn_);
    if (from != to) memcpy(to, from, kv_.page_values * sizeof(uint16_t));
  }
  // A page as it lies in memory (KvStore says how), and back: float16 values as their bits.
  NewArray<uint16_t> read_page(int id) {
    const uint16_t* page = kv_.page(id);
    std::vector<uint16_t> values;
    {
      const InTurn turn(turn_);
      values.assign(page, page + kv_.page_values);
    }
    return array_from(std::move(values));
  }
  void write_page(int id, Vector<uint16_t> values) {
    uint16_t* page = kv_.page(id);
    if (values.size() != kv_.page_values) throw std::invalid_argument("write_page: number of values");
    const InTurn turn(turn_);
    memcpy(page, values.data(), kv_.page_values * sizeof(uint16_t));
  }

  void note_times(bool on) {
    require_finished();
    const InTurn turn(turn_);
    forward_->note_times(on);
  }
  NewArray<int64_t> times() {
    require_finished();
    std::vector<int64_t> values;
    {
      const InTurn turn(turn_);
      for (int t = 0; t < pool_.size(); ++t)
        for (const Lap& lap : forward_->laps(t))
          for (const int64_t value : {(int64_t)t, lap.instruction, lap.ready, lap.began, lap.ended})
            values.push_back(value);
    }
    const size_t n_laps = values.size() / 5;
    return array_from(std::move(values), {n_laps, 5});
  }
  double read_rate() {
    const InTurn turn(turn_);
    return unspool::read_rate(pool_);
  }
  double integer_rate() {
    const InTurn turn(turn_);
    return unspool::integer_rate(kernels_, pool_);
  }

  NewArray<float> unpack(int matrix) {
    require_packed();
    const Packed& w = network_.matrices.at(matrix);
    return array_from(unpacked(w), {(size_t)w.n, (size_t)w.k});
  }
  NewArray<float> product(int matrix, FloatRows x, bool shifts) {
    require_packed();
    const Packed& w = network_.matrices.at(matrix);
    if ((int)x.shape(1) != w.k) throw std::invalid_argument("product: width of x");
    return array_from(unspool::product(w, kernels_, x.data(), (int)x.shape(0), shifts),
                      {x.shape(0), (size_t)w.n});
  }

  size_t weight_bytes() const {
    size_t total = 0;
    for (const auto& matrix : network_.matrices) total += matrix.data_bytes;
    return total;
  }
  size_t kv_bytes() const { return kv_.memory.bytes(); }
  size_t spare_bytes() const { return logits_memory_->kept_bytes(); }
  std::string isa() const { return kernels_.name; }

 private:
  void require_finished() const {
    if (!forward_) throw std::invalid_argument("call finish first");
  }

  const Kernels& kernels_;
  Pool pool_;
  std::vector<Vector<uint8_t>> sources_;  // of matrices that are not yet packed
  KvStore kv_;
  std::unique_ptr<Forward> forward_;
  const std::shared_ptr<Reused> logits_memory_ = std::make_shared<Reused>();
  Turn turn_;  // threads take turns with the pages, the buffers and the pool
};

std::vector<std::string> instruction_sets() {
  std::vector<std::string> names;
  for (const char* name : {"avx512", "avx2", "portable"})
    if (select_kernels(name)) names.push_back(name);
  return names;
}

}  // namespace

NB_MODULE(_native, m) {
  m.doc() = "The native core: packed weights, pages of K and V, the forward pass, and sampling.";
  nb::register_exception_translator(raise_forked);
  m.def("instruction_sets", &instruction_sets, "Names of the kernel sets this machine runs, widest first.");
  nb::class_<Engine>(m, "Engine")
      .def(nb::init<int, const std::string&>(), nb::arg("n_threads"), nb::arg("isa"))
      .def("plan_matrix", &Engine::plan_matrix, nb::arg("encoding"), nb::arg("data"), nb::arg("n"),
           nb::arg("k"), nb::arg("is_mapped"))
      .def("pack", &Engine::pack)
      .def("add_matrix", &Engine::add_matrix, nb::arg("encoding"), nb::arg("data"), nb::arg("n"),
           nb::arg("k"))
      .def("add_vector", &Engine::add_vector)
      .def("add_register", &Engine::add_register)
      .def("add_rope", &Engine::add_rope)
      .def("embed", &Engine::embed)
      .def("norm", &Engine::norm)
      .def("linear", &Engine::linear)
      .def("rope", &Engine::rope)
      .def("attention", &Engine::attention)
      .def("gated", &Engine::gated)
      .def("add", &Engine::add)
      .def("scale", &Engine::scale)
      .def("softcap", &Engine::softcap)
      .def("select", &Engine::select)
      .def("finish", &Engine::finish, nb::arg("vocab_size"), nb::arg("context_length"), nb::arg("n_layers"),
           nb::arg("n_kv_heads"), nb::arg("head_dim"), nb::arg("n_pages"), nb::arg("page_size"))
      .def("forward", &Engine::forward)
      .def("sampler", &Engine::sampler, nb::rv_policy::take_ownership, nb::keep_alive<0, 1>())
      .def("copy_page", &Engine::copy_page)
      .def("read_page", &Engine::read_page, nb::arg("page"))
      .def("write_page", &Engine::write_page, nb::arg("page"), nb::arg("values"))
      .def("note_times", &Engine::note_times, nb::arg("on"))
      .def("times", &Engine::times)
      .def("read_rate", &Engine::read_rate)
      .def("integer_rate", &Engine::integer_rate)
      .def("unpack", &Engine::unpack)
      .def("product", &Engine::product, nb::arg("matrix"), nb::arg("x"), nb::arg("shifts") = false)
      .def_prop_ro("weight_bytes", &Engine::weight_bytes)
      .def_prop_ro("kv_bytes", &Engine::kv_bytes)
      .def_prop_ro("spare_bytes", &Engine::spare_bytes)
      .def_prop_ro("isa", &Engine::isa);
  unspool::bind_fit(m);
  unspool::bind_strings(m);
  unspool::bind_sampling(m);
}
