// The rotary part of a config.json. Internal to hf_config.
#pragma once

#include "formats/config_object.h"
#include "formats/hf_config.h"

namespace ropewalk {

// Fills config.rope for every name in config.layer_types, from rope_scaling, rope_parameters (flat or one dictionary a layer
// type), rope_theta, rope_local_base_freq, partial_rotary_factor, rotary_pct and rotary_dim. Widths and lengths are filled
// already.
Result<void> read_rope(const ConfigObject& root, HfConfig& config);

}  // namespace ropewalk
