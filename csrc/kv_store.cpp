#include "kv_store.h"

#include <stdexcept>

namespace unspool {

KvStore::KvStore(int n_pages, int page_size, int n_layers, int n_kv_heads, int head_dim)
    : n_pages(n_pages), page_size(page_size), n_layers(n_layers), n_kv_heads(n_kv_heads), head_dim(head_dim) {
  head_padded = (head_dim + 15) / 16 * 16;
  head_values = (size_t)head_padded * page_size;
  page_values = head_values * 2 * n_layers * n_kv_heads;
  memory = Memory(page_values * n_pages * sizeof(uint16_t));
}

uint16_t* KvStore::page(int id) const {
  if (id < 0 || id >= n_pages) throw std::invalid_argument("page id out of range");
  return memory.as<uint16_t>() + id * page_values;
}

}  // namespace unspool
