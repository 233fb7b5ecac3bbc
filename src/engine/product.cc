#include "engine/product.h"

#include <dnnl.hpp>
#include <map>
#include <mutex>
#include <numeric>
#include <optional>
#include <utility>

#include "base/aligned.h"
#include "base/fail.h"
#include "base/parallel.h"
#include "engine/weights.h"
#include "simd/ops.h"
#include "simd/targets.h"

namespace ropewalk {
namespace {

using Tag = dnnl::memory::format_tag;
using Type = dnnl::memory::data_type;

// Packing goes through pieces of this many rows of W: small enough for the second-level cache, a multiple of every layout's
// block.
constexpr int64_t kPackRows = 64;

const dnnl::engine& cpu() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

Error library_error(const dnnl::error& error, int64_t outputs, int64_t inputs) {
  return fail(error.status == dnnl_out_of_memory ? ErrorCode::kTooLarge : ErrorCode::kUnsupported,
              "[product] a {} x {} matrix: oneDNN refused: {}", outputs, inputs, error.what());
}

struct Kernel {
  dnnl::matmul::primitive_desc description;
  dnnl::matmul primitive;
  size_t scratch_bytes = 0;
};

// Made for one thread: parallelism is over row blocks, so that sums do not depend on the thread count and the feed-forward
// intermediate of a block stays in cache between its two products.
Kernel make_kernel(int64_t rows, int64_t inputs, int64_t outputs, bool accumulate, bool bf16,
                   const dnnl::memory::desc* weights) {
  const LibraryThreads one(1);
  const Type type = bf16 ? Type::bf16 : Type::f32;
  const dnnl::memory::desc a({rows, inputs}, type, Tag::ab);
  const dnnl::memory::desc w = weights != nullptr ? *weights : dnnl::memory::desc({inputs, outputs}, type, Tag::any);
  const dnnl::memory::desc out({rows, outputs}, Type::f32, Tag::ab);
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (accumulate) {
    dnnl::post_ops sum;
    sum.append_sum(1.0F);
    attributes.set_post_ops(sum);
  }
  Kernel kernel;
  kernel.description = dnnl::matmul::primitive_desc(dnnl::matmul::desc(a, w, out), attributes, cpu());
  kernel.primitive = dnnl::matmul(kernel.description);
  kernel.scratch_bytes = kernel.description.scratchpad_desc().get_size();
  return kernel;
}

}  // namespace

bool bf16_products() {
  if (!bf16_pays()) return false;
  // A cap set in the environment (ONEDNN_MAX_CPU_ISA) counts too.
  const auto isa = dnnl::get_effective_cpu_isa();
  return isa == dnnl::cpu_isa::avx512_core_bf16 || isa == dnnl::cpu_isa::avx512_core_amx;
}

struct PackedMatrix::State {
  int64_t outputs = 0, inputs = 0;
  bool bf16 = false;
  dnnl::memory::desc layout;
  AlignedBuffer<std::byte> data;
  int64_t capacity = 0;
  std::map<std::pair<int64_t, bool>, Kernel> kernels;
};

PackedMatrix::PackedMatrix() : state_(std::make_unique<State>()) {}
PackedMatrix::PackedMatrix(PackedMatrix&&) noexcept = default;
PackedMatrix& PackedMatrix::operator=(PackedMatrix&&) noexcept = default;
PackedMatrix::~PackedMatrix() = default;

int64_t PackedMatrix::outputs() const { return state_->outputs; }
int64_t PackedMatrix::inputs() const { return state_->inputs; }
int64_t PackedMatrix::bytes() const { return state_->capacity; }

Result<void> PackedMatrix::assign(std::span<const RowRange> parts, const std::string& path, const Options& options) {
  State& s = *state_;
  const int64_t inputs = parts.front().tensor->cols();
  const int64_t outputs =
      std::accumulate(parts.begin(), parts.end(), int64_t{0}, [](int64_t n, const RowRange& r) { return n + r.count; });
  try {
    if (s.outputs != outputs || s.inputs != inputs || s.bf16 != options.bf16) {
      s.kernels.clear();
      s.outputs = outputs;
      s.inputs = inputs;
      s.bf16 = options.bf16;
      Kernel kernel = make_kernel(options.block_rows, inputs, outputs, false, options.bf16, nullptr);
      s.layout = kernel.description.weights_desc();
      s.kernels.emplace(std::pair(options.block_rows, false), std::move(kernel));
    }
    const auto bytes = static_cast<int64_t>(s.layout.get_size());
    if (bytes > s.capacity) {
      ROPEWALK_TRY(s.data, AlignedBuffer<std::byte>::make(bytes));
      s.capacity = bytes;
    }

    struct Piece {
      const StoredTensor* tensor;
      int64_t first, count, to;
    };
    std::vector<Piece> pieces;
    int64_t to = 0;
    bool whole = true;  // pieces lie on the borders of the layout's blocks
    for (const RowRange& part : parts) {
      whole = whole && to % kPackRows == 0;
      for (int64_t row = 0; row < part.count; row += kPackRows) {
        pieces.push_back({part.tensor, part.first + row, std::min(kPackRows, part.count - row), to + row});
      }
      to += part.count;
    }

    const Type type = options.bf16 ? Type::bf16 : Type::f32;
    const dnnl::memory packed(s.layout, cpu(), s.data.data());
    const auto reorder = [&](float* rows, int64_t first, int64_t count, std::vector<uint16_t>& narrow) {
      void* source = rows;
      if (options.bf16) {
        narrow.resize(static_cast<size_t>(count * inputs));
        ops::narrow_to_bf16(rows, count * inputs, narrow.data());
        source = narrow.data();
      }
      const LibraryThreads one(1);
      dnnl::memory from({{inputs, count}, type, Tag::ba}, cpu(), source);
      dnnl::memory target(count == outputs ? s.layout : s.layout.submemory_desc({inputs, count}, {0, first}), cpu(),
                          s.data.data());
      dnnl::stream stream(cpu());
      dnnl::reorder(from, target).execute(stream, from, target);
      stream.wait();
    };

    std::mutex mutex;
    std::optional<Error> error;
    const auto keep = [&](Error&& e) {
      const std::lock_guard lock(mutex);
      if (!error) error = std::move(e);
    };
    if (whole) {
      parallel_ranges(Threads{options.threads}, static_cast<int64_t>(pieces.size()), 1, [&](int64_t begin, int64_t end, int) {
        std::vector<float> rows(static_cast<size_t>(kPackRows * inputs));
        std::vector<uint16_t> narrow;
        for (int64_t i = begin; i < end; ++i) {
          const Piece& p = pieces[static_cast<size_t>(i)];
          if (auto ok = expand_rows(*p.tensor, p.first, p.count, path, rows.data()); !ok) return keep(Error(ok.error()));
          try {
            reorder(rows.data(), p.to, p.count, narrow);
          } catch (const dnnl::error& e) {
            return keep(library_error(e, outputs, inputs));
          }
        }
      });
    } else {  // odd sizes: one staging copy of the whole
      std::vector<float> rows(static_cast<size_t>(outputs * inputs));
      std::vector<uint16_t> narrow;
      for (const Piece& p : pieces) {
        ROPEWALK_CHECK_OK(expand_rows(*p.tensor, p.first, p.count, path, rows.data() + p.to * inputs));
      }
      reorder(rows.data(), 0, outputs, narrow);
    }
    if (error) return *error;
  } catch (const dnnl::error& e) {
    return library_error(e, outputs, inputs);
  }
  return {};
}

Result<void> PackedMatrix::prepare(int64_t rows, bool accumulate) {
  State& s = *state_;
  if (s.kernels.contains({rows, accumulate})) return {};
  try {
    s.kernels.emplace(std::pair(rows, accumulate), make_kernel(rows, s.inputs, s.outputs, accumulate, s.bf16, &s.layout));
  } catch (const dnnl::error& e) {
    return library_error(e, s.outputs, s.inputs);
  }
  return {};
}

void PackedMatrix::multiply(const float* a, int64_t rows, bool accumulate, float* out, ProductScratch& scratch) const {
  const State& s = *state_;
  const Kernel& kernel = s.kernels.at({rows, accumulate});
  const void* input = a;
  if (s.bf16) {
    const int64_t count = rows * s.inputs;
    if (static_cast<int64_t>(scratch.narrow.size()) < count) scratch.narrow.resize(static_cast<size_t>(count));
    ops::narrow_to_bf16(a, count, scratch.narrow.data());
    input = scratch.narrow.data();
  }
  if (scratch.library.size() < kernel.scratch_bytes) scratch.library.resize(kernel.scratch_bytes);
  const auto memory = [](const dnnl::memory::desc& desc, const void* data) {
    return dnnl::memory(desc, cpu(), const_cast<void*>(data));
  };
  const LibraryThreads one(1);
  dnnl::stream stream(cpu());
  kernel.primitive.execute(stream,
                           {{DNNL_ARG_SRC, memory(kernel.description.src_desc(), input)},
                            {DNNL_ARG_WEIGHTS, memory(s.layout, s.data.data())},
                            {DNNL_ARG_DST, memory(kernel.description.dst_desc(), out)},
                            {DNNL_ARG_SCRATCHPAD, memory(kernel.description.scratchpad_desc(), scratch.library.data())}});
  stream.wait();
}

}  // namespace ropewalk
