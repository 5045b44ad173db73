// The storage of K and V. Who owns which page is the engine's to decide.
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "memory.h"

namespace unspool {

// Pages of all layers: a page is [layer][K or V][kv head][head_padded * page_size] float16 values.
struct KvStore {
  Memory memory;
  int n_pages = 0, page_size = 0, n_layers = 0, n_kv_heads = 0, head_dim = 0, head_padded = 0;
  size_t head_values = 0, page_values = 0;

  KvStore() = default;
  KvStore(int n_pages, int page_size, int n_layers, int n_kv_heads, int head_dim);
  // Throws std::invalid_argument where there is no such page.
  uint16_t* page(int id) const;
  // Values of K (side 0) or V (side 1) of one head in page 0; pages follow page_values apart.
  uint16_t* head(int layer, int side, int kv_head) const {
    const size_t index = ((size_t)layer * 2 + side) * n_kv_heads + kv_head;
    return memory.as<uint16_t>() + index * head_values;
  }
};

}  // namespace unspool
