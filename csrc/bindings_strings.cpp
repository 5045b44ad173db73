// Arrays of strings in a GGUF file: a vocabulary and its merges, some 100,000 of them on the way to the first
// token. Each is a length of 64 bits and as many bytes.
#include "bindings_strings.h"

#include <stdint.h>
#include <string.h>

#include "bindings_arrays.h"

namespace nb = nanobind;

namespace unspool {

namespace {

constexpr size_t kLength = 8;

// Where the bytes of each of n strings begin that follow each other from `position`; fewer than n where one
// does not end before `end`.
NewArray<int64_t> string_starts(Vector<uint8_t> data, size_t position, size_t end, size_t n) {
  if (end > data.size() || position > end || n > (end - position) / kLength) n = 0;
  std::vector<int64_t> starts;
  starts.reserve(n);  // of many that are not there no memory is touched
  while (starts.size() < n && end - position >= kLength) {
    uint64_t length;
    memcpy(&length, data.data() + position, kLength);  // GGUF and every machine we run on: little-endian
    if (length > end - position - kLength) break;
    position += kLength;
    starts.push_back((int64_t)position);
    position += length;
  }
  return array_from(std::move(starts));
}

nb::object decoded(const char* from, size_t bytes) {
  PyObject* text = PyUnicode_DecodeUTF8(from, (Py_ssize_t)bytes, nullptr);
  if (!text) throw nb::python_error();
  return nb::steal(text);
}

// Calls `each` with the bounds of every string; `starts` has one more, 8 bytes behind the end of the last.
template <class Each>
void for_strings(const Vector<uint8_t>& data, const Vector<int64_t>& starts, Each&& each) {
  for (size_t i = 0; i + 1 < starts.size(); ++i) {
    const int64_t begin = starts(i), end = starts(i + 1) - (int64_t)kLength;
    if (begin < 0 || end < begin || (size_t)end > data.size()) throw nb::index_error("starts of strings");
    each((const char*)data.data() + begin, (const char*)data.data() + end);
  }
}

nb::list strings(Vector<uint8_t> data, Vector<int64_t> starts) {
  nb::list result;
  for_strings(data, starts,
              [&](const char* from, const char* to) { result.append(decoded(from, to - from)); });
  return result;
}

// Each cut at its spaces.
nb::list split_strings(Vector<uint8_t> data, Vector<int64_t> starts) {
  nb::list result;
  for_strings(data, starts, [&](const char* from, const char* to) {
    const auto space = [&] { return (const char*)memchr(from, ' ', to - from); };
    const char* at = space();
    if (at && !memchr(at + 1, ' ', to - at - 1)) {  // as all merges are
      result.append(nb::make_tuple(decoded(from, at - from), decoded(at + 1, to - at - 1)));
      return;
    }
    nb::list pieces;
    for (; at; from = at + 1, at = space()) pieces.append(decoded(from, at - from));
    pieces.append(decoded(from, to - from));
    result.append(nb::tuple(pieces));
  });
  return result;
}

}  // namespace

void bind_strings(nb::module_& m) {
  m.def("string_starts", &string_starts, nb::arg("data"), nb::arg("position"), nb::arg("end"), nb::arg("n"));
  m.def("strings", &strings, nb::arg("data"), nb::arg("starts"));
  m.def("split_strings", &split_strings, nb::arg("data"), nb::arg("starts"));
}

}  // namespace unspool
