// config.json from any bytes. What is accepted must keep what the header promises.
#include <cmath>

#include "formats/hf_config.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ropewalk;
  const auto config = parse_hf_config({reinterpret_cast<const char*>(data), size}, "config.json");
  if (!config) return config.error().message().find("config.json") == std::string::npos ? (__builtin_trap(), 0) : 0;
  if (config->num_attention_heads % config->num_key_value_heads != 0) __builtin_trap();
  if (config->layer_types.size() != static_cast<size_t>(config->num_hidden_layers)) __builtin_trap();
  for (int64_t layer = 0; layer < config->num_hidden_layers; ++layer) {
    const HfRope& rope = config->rope_of(layer);
    if (!(rope.theta > 0) || !std::isfinite(rope.theta)) __builtin_trap();
    if (rope.type != "proportional" && (rope.rotary_dim < 2 || rope.rotary_dim % 2 != 0 || rope.rotary_dim > config->head_dim))
      __builtin_trap();
  }
  return 0;
}
