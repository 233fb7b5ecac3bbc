// What `ropewalk bench` can run.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ropewalk/dtype.h"
#include "ropewalk/rotary.h"
#include "workbench/bench/bench.h"

namespace ropewalk {

// Each measures the limit that its work is bound by, in turns with it. Errors: kTooLarge (memory), kInterrupted,
// kInvalidArgument.
Result<BenchReport> bench_stream(const BenchOptions& options, const Control& control);
Result<BenchReport> bench_peak(const BenchOptions& options, const Control& control);

class Model;

struct RopeBench {
  std::vector<DType> dtypes = {DType::kF32};
  std::vector<Pairing> pairings = {Pairing::kHalves, Pairing::kInterleaved};
  int heads = 32;
  int head_dim = 128;
  int rotary_dim = 0;                  // 0 = head_dim
  int64_t bytes = int64_t{512} << 20;  // of the tensor; far beyond the caches, so that it is cold in every run
  int64_t first_position = int64_t{1} << 20;
};
// Rotation in place, a row for each dtype and pairing, against the in-place scale bandwidth. The table of cos and sin is made
// before. Checked: sampled tokens against the definition in long double.
Result<BenchReport> bench_rope(const RopeBench& setup, const BenchOptions& options, const Control& control);

struct AttentionBench {
  std::vector<int64_t> tokens = {4096};
  int heads = 32;
  int kv_heads = 8;
  int head_dim = 128;
  DType compute = DType::kF32;  // of prefill
  DType cache = DType::kF32;    // of keys and values in decode
  int64_t window = 0;
  bool causal = true;
  bool rotate = false;                        // q and k come un-rotated
  bool backward = false;                      // of prefill: the gradients too, a row for each
  std::vector<std::string> encodings = {""};  // of prefill: a row for each, as make_encoding reads it; "" = none
};
// Prefill: T queries over T keys, against the peak of f32 or bf16 products; only visible pairs count. Checked: sampled rows of
// the timed output against attention_reference.
Result<BenchReport> bench_attention(const AttentionBench& setup, const BenchOptions& options, const Control& control);
// Decode: one query over `tokens` keys, against the bandwidth of reading memory.
Result<BenchReport> bench_decode(const AttentionBench& setup, const BenchOptions& options, const Control& control);

struct MatmulShape {
  int64_t rows = 0, outputs = 0, inputs = 0;  // out [rows][outputs] = a [rows][inputs] W^T
};
struct MatmulBench {
  std::vector<MatmulShape> shapes = {{4096, 960, 576}, {4096, 3072, 576}, {4096, 576, 1536}, {4096, 4096, 4096}};
  DType compute = DType::kF32;  // kBF16: f32 where the processor has no bf16 dot product
};
// The engine's matrix products, against the peak. Checked: sampled outputs against sums in double.
Result<BenchReport> bench_matmul(const MatmulBench& setup, const BenchOptions& options, const Control& control);

struct ModelBench {
  std::vector<int64_t> lengths = {512, 4096};
  bool fast = false;   // Precision::kFast
  bool decode = true;  // time single tokens behind each length too
};
// Prefill (against the peak of products) and decode (against reading weights and cache) on random tokens. Checked: a few tokens
// against reference_forward.
Result<BenchReport> bench_model(const Model& model, const ModelBench& setup, const BenchOptions& options,
                                const Control& control);

}  // namespace ropewalk
