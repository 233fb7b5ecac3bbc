#include "formats/hf_config.h"

#include <gtest/gtest.h>

#include "base/testing_folder.h"
#include "formats/testing_bytes.h"

namespace ropewalk {
namespace {

using testing::expect_error_names;

struct BadConfig {
  std::string text;
  std::vector<std::string> names;
};

void expect_refused(const BadConfig& config) { expect_error_names(parse_hf_config(config.text, "config.json"), config.names); }

HfConfig read(const std::string& text) {
  auto config = parse_hf_config(text, "config.json");
  EXPECT_TRUE(config) << config.error().message();
  return config ? *std::move(config) : HfConfig{};
}

// A llama config with `more` keys after the usual ones.
std::string llama(const std::string& more, const std::string& widths = R"("hidden_size":64,"num_attention_heads":8)") {
  return R"({"model_type":"llama",)" + widths +
         R"(,"num_key_value_heads":8,"num_hidden_layers":2,"max_position_embeddings":4096)" + (more.empty() ? "" : ",") + more +
         "}";
}

bool warns(const HfConfig& config, const std::vector<std::string>& names) {
  for (const std::string& warning : config.warnings) {
    if (std::all_of(names.begin(), names.end(), [&](const std::string& n) { return testing::mentions(warning, n); }))
      return true;
  }
  return false;
}

// fil-config-values: config values of the wrong type or outside their range reach the arithmetic.
TEST(HfConfigCases, Values) {
  const BadConfig configs[] = {
      {R"({"hidden_size": 64,)", {"config.json"}},
      {R"({"model_type":"llama","hidden_size":64,"num_attention_heads":8,"num_key_value_heads":8,"num_hidden_layers":2,"max_position_embeddings":4096,"rope_theta":"10000"})",
       {"rope_theta", "10000"}},
      {R"({"model_type":"llama","hidden_size":64,"num_attention_heads":8,"num_key_value_heads":8,"num_hidden_layers":2,"max_position_embeddings":4096,"rope_theta":0})",
       {"rope_theta", "0"}},
      {R"({"model_type":"llama","hidden_size":64,"num_attention_heads":8,"num_key_value_heads":8,"num_hidden_layers":2,"max_position_embeddings":4096,"rope_theta":-10000.0})",
       {"rope_theta", "-10000"}},
      {R"({"model_type":"llama","hidden_size":64,"num_attention_heads":8,"num_key_value_heads":8,"num_hidden_layers":2,"max_position_embeddings":4096,"rope_theta":1e999})",
       {"rope_theta"}},
      {R"({"model_type":"llama","hidden_size":64,"num_attention_heads":8,"num_key_value_heads":8,"num_hidden_layers":2,"max_position_embeddings":4096,"rope_theta":NaN})",
       {"config.json"}},
      {R"({"model_type":"llama","hidden_size":64,"num_attention_heads":0,"num_key_value_heads":8,"num_hidden_layers":2,"max_position_embeddings":4096,"rope_theta":10000.0})",
       {"num_attention_heads", "0"}},
      {R"({"model_type":"llama","hidden_size":64,"num_attention_heads":8,"num_key_value_heads":3,"num_hidden_layers":2,"max_position_embeddings":4096,"rope_theta":10000.0})",
       {"num_key_value_heads", "3", "8"}},
      {R"({"model_type":"llama","hidden_size":64,"num_attention_heads":8,"num_key_value_heads":8,"num_hidden_layers":2,"max_position_embeddings":4096,"rope_theta":10000.0,"rope_scaling":{"rope_type":"linear","factor":0}})",
       {"rope_scaling.factor", "0"}},
      {R"({"model_type":"llama","hidden_size":64,"num_attention_heads":8,"num_key_value_heads":8,"num_hidden_layers":2,"max_position_embeddings":4096,"rope_theta":10000.0,"rope_scaling":{"rope_type":"linear","factor":-2.0}})",
       {"rope_scaling.factor", "-2"}},
      {R"({"model_type":"llama","hidden_size":64,"num_attention_heads":8,"num_key_value_heads":8,"num_hidden_layers":2,"max_position_embeddings":4096,"rope_theta":10000.0,"rope_scaling":{"rope_type":"linear"}})",
       {"rope_scaling.factor"}},
      {R"({"model_type":"llama","hidden_size":64,"num_attention_heads":8,"num_key_value_heads":8,"num_hidden_layers":2,"max_position_embeddings":4096,"rope_theta":10000.0,"rope_scaling":[2.0]})",
       {"rope_scaling"}},
      {R"({"model_type":"llama","hidden_size":64,"num_attention_heads":8,"num_key_value_heads":8,"num_hidden_layers":2,"max_position_embeddings":0,"rope_theta":10000.0,"rope_scaling":{"rope_type":"dynamic","factor":2.0}})",
       {"max_position_embeddings", "0"}},
  };
  for (const BadConfig& config : configs) expect_refused(config);
}

// The kind of fil-config-values at other keys, nested dictionaries included.
TEST(HfConfig, WrongValuesAreNamedByTheirFullPath) {
  const BadConfig configs[] = {
      {"", {"config.json", "JSON"}},
      {"[]", {"config.json", "object"}},
      {"{} {}", {"config.json", "JSON"}},
      {R"({"model_type":7})", {"model_type", "7"}},
      {R"({"model_type":"llama","model_type":"llama"})", {"model_type", "second"}},
      {R"({"text_config":[]})", {"text_config"}},
      {R"({"text_config":{"hidden_size":-1}})", {"text_config.hidden_size", "-1"}},
      {R"({"model_type":"llama"})", {"hidden_size", "missing"}},
      {llama(R"("rope_scaling":{"rope_type":"yarn","factor":4,"beta_fast":"32"})"), {"rope_scaling.beta_fast", "32"}},
      {llama(R"("rope_scaling":{"rope_type":"yarn","factor":4,"truncate":1})"), {"rope_scaling.truncate", "1"}},
      {llama(R"("rope_scaling":{"rope_type":"yarn","factor":4,"original_max_position_embeddings":0})"),
       {"rope_scaling.original_max_position_embeddings", "0"}},
      {llama(R"("rope_scaling":{"rope_type":"llama3","low_freq_factor":1})"), {"rope_scaling.factor", "llama3"}},
      {llama(R"("rope_scaling":{"rope_type":"yarn"})"), {"rope_scaling.factor", "yarn"}},
      {llama(R"("rope_scaling":{"rope_type":7,"factor":2})"), {"rope_scaling.rope_type", "7"}},
      {llama(R"("rope_scaling":{"rope_type":"longrope","long_factor":[1,0]})"), {"rope_scaling.long_factor", "0"}},
      {llama(R"("rope_scaling":{"rope_type":"longrope","short_factor":3})"), {"rope_scaling.short_factor", "3"}},
      {llama(R"("rope_scaling":{"rope_type":"x","odd":[[1]]})"), {"rope_scaling.odd"}},
      {llama(R"("rope_parameters":{"full_attention":{"rope_theta":-1},"sliding_attention":{}})"),
       {"rope_parameters.full_attention.rope_theta", "-1"}},
      {llama(R"("rope_parameters":{"full_attention":7,"sliding_attention":{}})"), {"rope_parameters.full_attention", "7"}},
      {llama(R"("rope_parameters":{"sliding_attention":{"rope_theta":1e4}})"), {"rope_parameters.full_attention", "missing"}},
      {llama(R"("layer_types":["full_attention"])"), {"layer_types", "2", "1"}},
      {llama(R"("layer_types":["full_attention",3])"), {"layer_types"}},
      {llama(R"("sliding_window":0)"), {"sliding_window", "0"}},
      {llama(R"("head_dim":1.5)"), {"head_dim", "1.5"}},
      {llama(R"("rms_norm_eps":0)"), {"rms_norm_eps", "0"}},
      {llama(R"("tie_word_embeddings":"yes")"), {"tie_word_embeddings", "yes"}},
      {llama(R"("architectures":"x")"), {"architectures"}},
      {llama(R"("eos_token_id":"x")"), {"eos_token_id", "x"}},
      {llama(R"("vocab_size":18446744073709551615)"), {"vocab_size", "18446744073709551615"}},
      {llama("", R"("hidden_size":65,"num_attention_heads":8)"), {"hidden_size", "65", "8"}},
      {R"({"hidden_size":64,"num_attention_heads":8,"num_hidden_layers":1000000000000})",
       {"num_hidden_layers", "1000000000000"}},
      {llama(R"("x":)" + std::string(1000, '[') + std::string(1000, ']')), {"config.json", "x", "64"}},
      {llama(R"("rope_theta":Infinity)"), {"config.json", "rope_theta"}},
  };
  for (const BadConfig& config : configs) expect_refused(config);
  EXPECT_EQ(parse_hf_config(std::string(17 << 20, ' '), "config.json").error().code(), ErrorCode::kTooLarge);
  EXPECT_EQ(load_hf_config("/nonexistent").error().code(), ErrorCode::kNotFound);
}

// cfg-rotary-width-invalid: an impossible rotary width accepted at load.
TEST(HfConfigCases, RotaryWidthInvalid) {
  const BadConfig configs[] = {
      {llama(R"("partial_rotary_factor":0.3,"rope_theta":10000.0)", R"("hidden_size":80,"num_attention_heads":8)"),
       {"partial_rotary_factor", "0.3", "10", "3"}},
      {llama("", R"("hidden_size":520,"num_attention_heads":8)"), {"65", "520", "8"}},
      {llama("", R"("hidden_size":24,"num_attention_heads":8)"), {"3", "24", "8"}},
      {llama(R"("rotary_dim":128)", R"("hidden_size":512,"num_attention_heads":8)"), {"rotary_dim", "128", "64"}},
      {llama(R"("partial_rotary_factor":0.0)"), {"partial_rotary_factor", "0"}},
      {llama(R"("rope_parameters":{"partial_rotary_factor":1.5})"), {"rope_parameters.partial_rotary_factor", "1.5"}},
  };
  for (const BadConfig& config : configs) expect_refused(config);
}

// cfg-partial-keys: the share of rotated dims under its several names and places.
TEST(HfConfigCases, PartialKeys) {
  const std::string widths = R"("hidden_size":128,"num_attention_heads":8)";
  for (const char* keys :
       {R"("partial_rotary_factor":0.25)", R"("rope_parameters":{"rope_type":"default","partial_rotary_factor":0.25})",
        R"("rotary_pct":0.25,"rotary_emb_base":10000)", R"("rotary_dim":4)"}) {
    const HfConfig config = read(llama(keys, widths));
    EXPECT_EQ(config.head_dim, 16);
    EXPECT_EQ(config.rope_of(0).rotary_dim, 4) << keys;
    EXPECT_EQ(config.rope_of(0).theta, 10000.0);
  }
}

// cfg-type-or-rope-type, cfg-no-scaling, cfg-both-type-keys-differ.
TEST(HfConfigCases, TypeOfScaling) {
  for (const char* scaling : {R"({"type":"linear","factor":2.0})", R"({"rope_type":"linear","factor":2})",
                              R"({"type":"linear","rope_type":"linear","factor":2.0})"}) {
    const HfConfig config = read(llama(R"("rope_theta":1e4,"rope_scaling":)" + std::string(scaling)));
    EXPECT_EQ(config.rope_of(1).type, "linear");
    EXPECT_EQ(config.rope_of(1).number("factor"), 2.0);
    EXPECT_EQ(config.rope_of(1).path, "rope_scaling");
    EXPECT_TRUE(config.warnings.empty());
  }
  for (const char* more : {"", R"("rope_scaling":null)", R"("rope_scaling":{"rope_type":"default"})", R"("rope_scaling":{})"}) {
    EXPECT_FALSE(read(llama(more)).rope_of(0).scaled()) << more;
  }
  expect_refused(
      {llama(R"("rope_scaling":{"type":"linear","rope_type":"yarn","factor":2.0})"), {"type", "linear", "rope_type", "yarn"}});
  // A rule of another day is kept by its name, for the engine to refuse.
  EXPECT_EQ(read(llama(R"("rope_scaling":{"rope_type":"spiral","x":[1,2],"y":"z","w":true})")).rope_of(0).type, "spiral");
}

// cfg-theta-moved-into-dict, cfg-theta-in-two-places.
TEST(HfConfigCases, Theta) {
  for (const char* more :
       {R"("rope_theta":1000000.0)", R"("rope_parameters":{"rope_type":"default","rope_theta":1000000.0})",
        R"("rope_parameters":{"rope_theta":1000000})", R"("rope_theta":null,"rope_parameters":{"rope_theta":1e6})"}) {
    const HfConfig config = read(llama(more));
    EXPECT_EQ(config.rope_of(0).theta, 1e6) << more;
    EXPECT_TRUE(config.warnings.empty());
  }
  const HfConfig twice =
      read(llama(R"("rope_theta":10000.0,"rope_parameters":{"rope_type":"default","rope_theta":1000000.0})"));
  EXPECT_EQ(twice.rope_of(0).theta, 1e6);
  EXPECT_TRUE(warns(twice, {"rope_theta", "10000", "1000000"}));
  const HfConfig lost = read(llama(""));  // nobody notices, unless told
  EXPECT_EQ(lost.rope_of(0).theta, 10000.0);
  EXPECT_TRUE(warns(lost, {"rope_theta", "10000"}));
  const HfConfig both = read(
      llama(R"("rope_theta":1e4,"rope_scaling":{"type":"linear","factor":2},"rope_parameters":{"type":"linear","factor":3})"));
  EXPECT_EQ(both.rope_of(0).number("factor"), 2.0);
  EXPECT_TRUE(warns(both, {"rope_scaling", "rope_parameters"}));
}

// cfg-nested-per-layer-yarn.
TEST(HfConfigCases, NestedPerLayerYarn) {
  const HfConfig config = read(
      R"({"model_type":"llama","hidden_size":1024,"num_attention_heads":8,"num_key_value_heads":8,"num_hidden_layers":4,
          "max_position_embeddings":131072,"head_dim":128,
          "layer_types":["sliding_attention","full_attention","sliding_attention","full_attention"],
          "rope_parameters":{"full_attention":{"rope_type":"yarn","rope_theta":1000000.0,"factor":4.0,
          "original_max_position_embeddings":32768},"sliding_attention":{"rope_type":"default","rope_theta":10000.0}}})");
  EXPECT_TRUE(warns(config, {"sliding_window", "layer_types"}));
  for (const int64_t layer : {0, 2}) {
    EXPECT_TRUE(config.is_sliding(layer));
    EXPECT_EQ(config.rope_of(layer).type, "default");
    EXPECT_EQ(config.rope_of(layer).theta, 10000.0);
  }
  for (const int64_t layer : {1, 3}) {
    const HfRope& rope = config.rope_of(layer);
    EXPECT_EQ(rope.type, "yarn");
    EXPECT_EQ(rope.theta, 1e6);
    EXPECT_EQ(rope.number("factor"), 4.0);
    EXPECT_EQ(rope.number("original_max_position_embeddings"), 32768.0);
    EXPECT_EQ(rope.path, "rope_parameters.full_attention");
    EXPECT_EQ(rope.rotary_dim, 128);
  }
}

// cfg-local-global-bases: local and global layers share one base, or the scaling of the global layers reaches the local ones.
TEST(HfConfigCases, LocalGlobalBases) {
  const std::string common =
      R"({"model_type":"gemma3_text","hidden_size":2560,"num_attention_heads":8,"num_key_value_heads":4,"num_hidden_layers":12,
          "max_position_embeddings":131072,"sliding_window":1024,"head_dim":256,)";
  const std::string old_dialect =
      R"("rope_theta":1000000.0,"rope_local_base_freq":10000.0,"sliding_window_pattern":6,"rope_scaling":{"rope_type":"linear","factor":8.0}})";
  const std::string new_dialect =
      R"("layer_types":["sliding_attention","sliding_attention","sliding_attention","sliding_attention","sliding_attention",
         "full_attention","sliding_attention","sliding_attention","sliding_attention","sliding_attention","sliding_attention",
         "full_attention"],"rope_parameters":{"full_attention":{"rope_type":"linear","factor":8.0,"rope_theta":1000000.0},
         "sliding_attention":{"rope_type":"default","rope_theta":10000.0}}})";
  for (const std::string& dialect : {old_dialect, new_dialect}) {
    const HfConfig config = read(common + dialect);
    EXPECT_TRUE(config.warnings.empty());
    EXPECT_EQ(config.sliding_window, 1024);
    for (int64_t layer = 0; layer < 12; ++layer) {
      const HfRope& rope = config.rope_of(layer);
      const bool global = layer == 5 || layer == 11;
      EXPECT_EQ(config.is_sliding(layer), !global);
      EXPECT_EQ(rope.theta, global ? 1e6 : 1e4) << layer;
      EXPECT_EQ(rope.type, global ? "linear" : "default");
      EXPECT_EQ(rope.rotary_dim, 256);
    }
  }
}

// cfg-text-config, and a Gemma 3 file that says next to nothing: the rest is in the class, and taken with a word.
TEST(HfConfigCases, TextConfig) {
  const HfConfig config = read(
      R"({"model_type":"some_vlm","vision_config":{"hidden_size":1152,"num_attention_heads":16,"rope_theta":100.0},
          "text_config":{"model_type":"llama","hidden_size":64,"num_attention_heads":8,"num_key_value_heads":8,"num_hidden_layers":2,
          "max_position_embeddings":4096,"rope_theta":1000000.0,"rope_scaling":{"rope_type":"linear","factor":2.0}},
          "torch_dtype":"bfloat16","tie_word_embeddings":true,"architectures":["SomeVlm"],"eos_token_id":[1,106]})");
  EXPECT_EQ(config.model_type, "llama");
  EXPECT_EQ(config.rope_of(0).theta, 1e6);
  EXPECT_EQ(config.rope_of(0).path, "text_config.rope_scaling");
  EXPECT_EQ(config.torch_dtype, "bfloat16");
  EXPECT_TRUE(config.tie_word_embeddings);
  EXPECT_EQ(config.eos_token_ids, (std::vector<int64_t>{1, 106}));
  EXPECT_EQ(config.architectures, std::vector<std::string>{"SomeVlm"});

  const HfConfig gemma = read(
      R"({"model_type":"gemma3","text_config":{"hidden_size":2560,"intermediate_size":10240,"model_type":"gemma3_text",
          "num_hidden_layers":34,"rope_scaling":{"factor":8.0,"rope_type":"linear"},"sliding_window":1024}})");
  EXPECT_EQ(gemma.num_attention_heads, 8);
  EXPECT_EQ(gemma.num_key_value_heads, 4);
  EXPECT_EQ(gemma.head_dim, 256);
  EXPECT_EQ(gemma.query_pre_attn_scalar, 256.0);
  EXPECT_EQ(gemma.hidden_activation, "gelu_pytorch_tanh");
  EXPECT_EQ(gemma.rope_of(5).theta, 1e6);
  EXPECT_EQ(gemma.rope_of(5).type, "linear");
  EXPECT_EQ(gemma.rope_of(0).theta, 1e4);
  EXPECT_EQ(gemma.rope_of(0).type, "default");
  EXPECT_TRUE(gemma.tie_word_embeddings);
  EXPECT_TRUE(warns(gemma, {"text_config.num_attention_heads", "8"}));
}

// cfg-head-dim-given.
TEST(HfConfigCases, HeadDimGiven) {
  const std::string widths = R"("hidden_size":5120,"num_attention_heads":32)";
  EXPECT_EQ(read(llama(R"("head_dim":128)", widths)).head_dim, 128);
  EXPECT_EQ(read(llama("", widths)).head_dim, 160);
  EXPECT_EQ(read(llama(R"("head_dim":null)", widths)).head_dim, 160);
  EXPECT_EQ(read(llama(R"("head_dim":256)", R"("hidden_size":636,"num_attention_heads":8)")).head_dim,
            256);  // no divisor of the width
}

TEST(HfConfig, WindowsOfQwenAndMistral) {
  const std::string qwen =
      R"({"model_type":"qwen2","hidden_size":64,"num_attention_heads":4,"num_key_value_heads":2,"num_hidden_layers":4,
      "max_position_embeddings":32768,"rope_theta":1e6,"sliding_window":4096,"max_window_layers":3,"use_sliding_window":)";
  const HfConfig off = read(qwen + "false}");
  EXPECT_EQ(off.sliding_window, 0);
  EXPECT_EQ(off.rope.size(), 1u);
  const HfConfig on = read(qwen + "true}");
  EXPECT_EQ(on.sliding_window, 4096);
  EXPECT_FALSE(on.is_sliding(2));
  EXPECT_TRUE(on.is_sliding(3));
  EXPECT_EQ(on.rope_of(3).theta, 1e6);
  const std::string mistral =
      R"({"model_type":"mistral","hidden_size":64,"num_attention_heads":4,"num_hidden_layers":2,"max_position_embeddings":32768,"sliding_window":)";
  EXPECT_TRUE(read(mistral + "4096}").is_sliding(0));
  EXPECT_FALSE(read(mistral + "null}").is_sliding(0));
  EXPECT_EQ(read(mistral + "null}").num_key_value_heads, 4);
  const HfConfig llama_with_window = read(llama(R"("sliding_window":512)"));  // transformers' llama has no windows
  EXPECT_FALSE(llama_with_window.is_sliding(0));
  EXPECT_TRUE(warns(llama_with_window, {"sliding_window", "512"}));
}

TEST(HfConfig, ProportionalRotatesTheWholeHeadAndPhiGivesItsLengthOutside) {
  const HfConfig p =
      read(llama(R"("rope_parameters":{"rope_type":"proportional","partial_rotary_factor":0.25,"rope_theta":1e6})"));
  EXPECT_EQ(p.rope_of(0).rotary_dim, 8);
  EXPECT_EQ(p.rope_of(0).number("partial_rotary_factor"), 0.25);
  const HfConfig phi = read(llama(
      R"("original_max_position_embeddings":2048,"rope_scaling":{"type":"longrope","short_factor":[1,1,1,1.5],"long_factor":[1,2,4,8]})"));
  EXPECT_EQ(phi.rope_of(0).number("original_max_position_embeddings"), 2048.0);
  EXPECT_EQ(phi.rope_of(0).lists.at("long_factor"), (std::vector<double>{1, 2, 4, 8}));
}

TEST(HfConfig, LoadsFromAFolderOrAFile) {
  const TemporaryFolder folder;
  const std::string file = folder.write("config.json", llama(R"("rope_theta":5e5)"));
  EXPECT_EQ(load_hf_config(folder.path())->rope_of(0).theta, 5e5);
  EXPECT_EQ(load_hf_config(file)->file, file);
}

TEST(HfConfig, TruncationAtEveryByteAndChangedBytes) {
  const std::string whole =
      llama(R"("rope_theta":1e4,"rope_scaling":{"rope_type":"yarn","factor":4.0,"truncate":false},"eos_token_id":[1,2])");
  for (size_t size = 0; size < whole.size(); ++size)
    EXPECT_FALSE(parse_hf_config(whole.substr(0, size), "config.json")) << size;
  for (size_t at = 0; at < whole.size(); ++at) {
    for (const int bit : {0, 1, 4, 7}) {
      std::string changed = whole;
      changed[at] = static_cast<char>(changed[at] ^ (1 << bit));
      (void)parse_hf_config(changed, "config.json");
    }
  }
}

}  // namespace
}  // namespace ropewalk
