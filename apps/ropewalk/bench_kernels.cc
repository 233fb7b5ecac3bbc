// bench stream, peak, rope, attention, decode, matmul.
#include "bench_frame.h"
#include "ropewalk/encodings.h"

namespace ropewalk::app {
namespace {

constexpr int kMaxDim = 65536;

void add_stream(CLI::App& bench) {
  auto options = std::make_shared<BenchCommand>();
  CLI::App& command = add_bench_kind(bench, "stream", "Memory: reading, and scaling in place", *options,
                                     {"ropewalk bench stream", "ropewalk bench stream --bytes 1gb --threads 1"});
  add_bytes(command, "--bytes", options->bench.memory_bytes, "memory to go over (default 512mb)");
  set_run(command, [options] { return run_bench(*options, "stream", nullptr, bench_stream); });
}

void add_peak(CLI::App& bench) {
  auto options = std::make_shared<BenchCommand>();
  CLI::App& command = add_bench_kind(bench, "peak", "Arithmetic: multiply-adds in registers, f32 and (where native) bf16",
                                     *options, {"ropewalk bench peak", "ropewalk bench peak --threads 1 --json -"});
  set_run(command, [options] { return run_bench(*options, "peak", nullptr, bench_peak); });
}

struct RopeCommand : BenchCommand {
  RopeBench rope;
};

void add_rope(CLI::App& bench) {
  auto options = std::make_shared<RopeCommand>();
  RopeBench& rope = options->rope;
  rope.dtypes = {DType::kF32, DType::kBF16, DType::kF16};
  CLI::App& command =
      add_bench_kind(bench, "rope", "Rotation in place, against the in-place bandwidth", *options,
                     {"ropewalk bench rope", "ropewalk bench rope --dtype bf16 --pairing interleaved --heads 9 --head-dim 64"});
  add_bytes(command, "--bytes", rope.bytes,
            "size of the tensor, and of the memory behind the limit (default 512mb: cold in every run)");
  add_choices(command, "--dtype", rope.dtypes, dtype_names(), "f32, bf16, f16 (default: all)");
  add_choices<Pairing>(command, "--pairing", rope.pairings,
                       {{"halves", Pairing::kHalves}, {"interleaved", Pairing::kInterleaved}},
                       "halves, interleaved (default: both)");
  add_count(command, "--heads", rope.heads, kMaxDim, "heads (default 32)");
  add_count(command, "--head-dim", rope.head_dim, kMaxDim, "size of a head (default 128)");
  add_count(command, "--rotary-dim", rope.rotary_dim, kMaxDim, "dims of a head that rotate (default: all)");
  set_run(command, [options] {
    options->bench.memory_bytes = options->rope.bytes;  // the limit over as much memory
    return run_bench(*options, "rope", nullptr, [&](const BenchOptions& bench_options, const Control& control) {
      return bench_rope(options->rope, bench_options, control);
    });
  });
}

struct AttentionCommand : BenchCommand {
  AttentionBench attention;
  bool bidirectional = false;
  std::string encodings;  // a list, or "all"
};

// "alibi,t5:max=256"; all: every one of the registry that acts in attention.
std::vector<std::string> encoding_list(const std::string& text) {
  if (text.empty()) return {""};
  std::vector<std::string> list;
  if (text == "all") {
    for (const EncodingInfo& info : encodings()) {
      const EncodingPoints& p = info.points;
      if (p.rotation || p.score || p.value || p.pairs || !p.input) list.push_back(info.name);
    }
    return list;
  }
  int depth = 0;  // a comma within parentheses belongs to a formula: expr:max(-d,-9)
  list.emplace_back();
  for (const char c : text) {
    depth += c == '(' ? 1 : c == ')' ? -1 : 0;
    if (c == ',' && depth == 0) {
      list.emplace_back();
    } else {
      list.back() += c;
    }
  }
  return list;
}

void add_shape(CLI::App& command, AttentionBench& attention) {
  add_count(command, "--heads", attention.heads, kMaxDim, "query heads (default 32)");
  add_count(command, "--kv-heads", attention.kv_heads, kMaxDim, "key and value heads (default 8)");
  add_count(command, "--head-dim", attention.head_dim, 512, "size of a head (default 128)");
  add_length(command, "--window", attention.window, "a query sees only the last N keys (default: all)");
  command.add_flag("--rotate", attention.rotate, "queries and keys come un-rotated and are rotated inside");
}

void add_attention(CLI::App& bench) {
  auto options = std::make_shared<AttentionCommand>();
  AttentionBench& attention = options->attention;
  CLI::App& command =
      add_bench_kind(bench, "attention", "Attention over a whole text, against the peak of products", *options,
                     {"ropewalk bench attention --tokens 4096 --heads 32 --kv-heads 8 --head-dim 128",
                      "ropewalk bench attention --encoding all       # what each costs over plain attention",
                      "ropewalk bench attention --tokens 512,4k,16k --heads 9 --kv-heads 3 --head-dim 64 --precision bf16"});
  add_lengths(command, "--tokens", attention.tokens, "lengths (default 4096)");
  add_shape(command, attention);
  add_choice(command, "--precision", attention.compute, precision_names(), "f32 (exact) or bf16 (fast); default f32");
  command.add_flag("--bidirectional", options->bidirectional, "every query sees every key");
  command.add_flag("--backward", options->attention.backward, "the gradients too (f32), a row for each");
  command.add_option("--encoding", options->encodings,
                     "with position encodings, a row for each: a list such as alibi,t5, or all");
  set_run(command, [options] {
    options->attention.causal = !options->bidirectional;
    options->attention.encodings = encoding_list(options->encodings);
    return run_bench(*options, "attention", nullptr, [&](const BenchOptions& bench_options, const Control& control) {
      return bench_attention(options->attention, bench_options, control);
    });
  });
}

void add_decode(CLI::App& bench) {
  auto options = std::make_shared<AttentionCommand>();
  AttentionBench& attention = options->attention;
  attention.tokens = {32768};
  CLI::App& command =
      add_bench_kind(bench, "decode", "One query over many keys, against the bandwidth of reading memory", *options,
                     {"ropewalk bench decode --keys 32k --heads 32 --kv-heads 8 --head-dim 128",
                      "ropewalk bench decode --keys 8k,32k --cache bf16"});
  add_lengths(command, "--keys", attention.tokens, "keys (default 32k)");
  add_shape(command, attention);
  add_choice(command, "--cache", attention.cache, dtype_names(), "type of keys and values: f32, bf16, f16 (default f32)");
  set_run(command, [options] {
    return run_bench(*options, "decode", nullptr, [&](const BenchOptions& bench_options, const Control& control) {
      return bench_decode(options->attention, bench_options, control);
    });
  });
}

struct MatmulCommand : BenchCommand {
  MatmulBench matmul;
};

// "4096x960x576,512x960x576"
std::vector<MatmulShape> parse_shapes(const std::string& text) {
  std::vector<MatmulShape> shapes;
  constexpr int64_t kMaxSide = 1 << 24;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::string word = text.substr(begin, end - begin);
    const size_t first = word.find('x'), second = first == std::string::npos ? first : word.find('x', first + 1);
    if (second == std::string::npos) {
      throw_usage(fail(ErrorCode::kInvalidArgument,
                       "[command line] --shapes: expected ROWSxOUTPUTSxINPUTS such as 4096x960x576, but got '{}'", word));
    }
    const auto side = [&](size_t from, size_t to) {
      return or_usage(parse_integer(word.substr(from, to - from), 1, kMaxSide, "--shapes"));
    };
    shapes.push_back({side(0, first), side(first + 1, second), side(second + 1, word.size())});
    begin = end + 1;
  }
  return shapes;
}

void add_matmul(CLI::App& bench) {
  auto options = std::make_shared<MatmulCommand>();
  CLI::App& command =
      add_bench_kind(bench, "matmul", "The engine's matrix products, against the peak", *options,
                     {"ropewalk bench matmul", "ropewalk bench matmul --shapes 4096x960x576,512x4096x4096 --precision fast"});
  command
      .add_option_function<std::string>(
          "--shapes", [options](const std::string& text) { options->matmul.shapes = parse_shapes(text); },
          "products to time (default: SmolLM2's, and one large square)")
      ->type_name("MxNxK,..");
  add_choice(command, "--precision", options->matmul.compute, precision_names(),
             "f32 (exact) or bf16 (fast, where native); default f32");
  set_run(command, [options] {
    return run_bench(*options, "matmul", nullptr, [&](const BenchOptions& bench_options, const Control& control) {
      return bench_matmul(options->matmul, bench_options, control);
    });
  });
}

}  // namespace

void add_bench_kernels(CLI::App& bench) {
  add_stream(bench);
  add_peak(bench);
  add_rope(bench);
  add_attention(bench);
  add_decode(bench);
  add_matmul(bench);
}

}  // namespace ropewalk::app
