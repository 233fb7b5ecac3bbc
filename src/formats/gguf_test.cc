#include "formats/gguf.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <limits>

#include "base/testing_folder.h"
#include "formats/testing_bytes.h"

namespace ropewalk {
namespace {

using testing::as_bytes;
using testing::expect_error_names;
using testing::GgufBuilder;

std::string zeros(size_t count) { return std::string(count, '\0'); }

GgufBuilder every_type() {
  GgufBuilder b;
  b.text("general.architecture", "llama");
  b.key("u8", 0, GgufBuilder::raw<uint8_t>(255));
  b.key("i8", 1, GgufBuilder::raw<int8_t>(-128));
  b.key("u16", 2, GgufBuilder::raw<uint16_t>(65535));
  b.key("i16", 3, GgufBuilder::raw<int16_t>(-32768));
  b.key("u32", 4, GgufBuilder::raw<uint32_t>(4294967295u));
  b.key("i32", 5, GgufBuilder::raw<int32_t>(std::numeric_limits<int32_t>::min()));
  b.key("f32", 6, GgufBuilder::raw<float>(0.1f));
  b.key("bool", 7, GgufBuilder::raw<uint8_t>(1));
  b.key("u64", 10, GgufBuilder::raw<uint64_t>(std::numeric_limits<uint64_t>::max()));
  b.key("i64", 11, GgufBuilder::raw<int64_t>(std::numeric_limits<int64_t>::min()));
  b.key("f64", 12, GgufBuilder::raw<double>(0.1));
  b.array<uint8_t>("a.u8", 0, {1, 255});
  b.array<int8_t>("a.i8", 1, {-1, 127});
  b.array<uint16_t>("a.u16", 2, {65535});
  b.array<int16_t>("a.i16", 3, {-2});
  b.array<uint32_t>("a.u32", 4, {7, 8, 9});
  b.array<int32_t>("a.i32", 5, {-7});
  b.array<float>("a.f32", 6, {0.5f});
  b.array<uint8_t>("a.bool", 7, {1, 0, 1});
  b.array<uint64_t>("a.u64", 10, {uint64_t{1} << 63});
  b.array<int64_t>("a.i64", 11, {});
  b.array<double>("a.f64", 12, {-0.25});
  b.key("a.string", 9,
        GgufBuilder::raw<uint32_t>(8) + GgufBuilder::raw<uint64_t>(2) + GgufBuilder::string("x") + GgufBuilder::string(""));
  b.tensor("w", {32, 3}, 8, zeros(3 * 34));
  b.tensor("scalar", {}, 0, GgufBuilder::raw(2.5f));
  b.tensor("cube", {2, 3, 5}, 1, zeros(60));
  return b;
}

template <class T>
const T& element(const GgufFile& file, std::string_view key) {
  return std::get<T>(std::get<GgufValue::Array>(file.find_key(key)->value));
}

TEST(Gguf, ReadsEveryTypeInVersions2And3) {
  for (const uint32_t version : {2u, 3u}) {
    GgufBuilder b = every_type();
    b.version = version;
    const std::string bytes = b.build();
    auto opened = GgufFile::parse(as_bytes(bytes), "m");
    ASSERT_TRUE(opened) << opened.error().message();
    const GgufFile& file = **opened;
    EXPECT_EQ(file.version(), version);
    EXPECT_EQ(file.metadata().size(), 24u);
    EXPECT_EQ(std::get<uint64_t>(file.find_key("u8")->value), 255u);
    EXPECT_EQ(std::get<int64_t>(file.find_key("i8")->value), -128);
    EXPECT_EQ(std::get<uint64_t>(file.find_key("u16")->value), 65535u);
    EXPECT_EQ(std::get<int64_t>(file.find_key("i16")->value), -32768);
    EXPECT_EQ(std::get<uint64_t>(file.find_key("u32")->value), 4294967295u);
    EXPECT_EQ(std::get<int64_t>(file.find_key("i32")->value), std::numeric_limits<int32_t>::min());
    EXPECT_EQ(std::get<double>(file.find_key("f32")->value), static_cast<double>(0.1f));
    EXPECT_EQ(std::get<bool>(file.find_key("bool")->value), true);
    EXPECT_EQ(std::get<uint64_t>(file.find_key("u64")->value), std::numeric_limits<uint64_t>::max());
    EXPECT_EQ(std::get<int64_t>(file.find_key("i64")->value), std::numeric_limits<int64_t>::min());
    EXPECT_EQ(std::get<double>(file.find_key("f64")->value), 0.1);
    EXPECT_EQ(element<std::vector<uint64_t>>(file, "a.u8"), (std::vector<uint64_t>{1, 255}));
    EXPECT_EQ(element<std::vector<int64_t>>(file, "a.i8"), (std::vector<int64_t>{-1, 127}));
    EXPECT_EQ(element<std::vector<uint64_t>>(file, "a.u16"), (std::vector<uint64_t>{65535}));
    EXPECT_EQ(element<std::vector<int64_t>>(file, "a.i16"), (std::vector<int64_t>{-2}));
    EXPECT_EQ(element<std::vector<uint64_t>>(file, "a.u32"), (std::vector<uint64_t>{7, 8, 9}));
    EXPECT_EQ(element<std::vector<int64_t>>(file, "a.i32"), (std::vector<int64_t>{-7}));
    EXPECT_EQ(element<std::vector<double>>(file, "a.f32"), (std::vector<double>{0.5}));
    EXPECT_EQ(element<std::vector<bool>>(file, "a.bool"), (std::vector<bool>{true, false, true}));
    EXPECT_EQ(element<std::vector<uint64_t>>(file, "a.u64"), (std::vector<uint64_t>{uint64_t{1} << 63}));
    EXPECT_TRUE(element<std::vector<int64_t>>(file, "a.i64").empty());
    EXPECT_EQ(element<std::vector<double>>(file, "a.f64"), (std::vector<double>{-0.25}));
    EXPECT_EQ(element<std::vector<std::string_view>>(file, "a.string"), (std::vector<std::string_view>{"x", ""}));
    EXPECT_EQ(file.find("w")->shape, (std::vector<int64_t>{3, 32}));
    EXPECT_EQ(file.find("w")->data.size(), 102u);
    EXPECT_EQ(file.find("scalar")->rows(), 1);
    EXPECT_EQ(file.find("scalar")->cols(), 1);
    EXPECT_EQ(file.find("cube")->shape, (std::vector<int64_t>{5, 3, 2}));
    EXPECT_EQ(file.find("cube")->rows(), 15);
    EXPECT_EQ(file.find("none"), nullptr);
    EXPECT_EQ(file.find_key("none"), nullptr);
  }
}

TEST(Gguf, TypedReadsNameFileKeyExpectedAndFound) {
  const std::string bytes = every_type().build();
  auto file = GgufFile::parse(as_bytes(bytes), "m.gguf").value();
  EXPECT_EQ(file->integer("u16", 0, 65535).value(), 65535);
  EXPECT_EQ(file->number("i8").value(), -128.0);
  EXPECT_EQ(file->number("f64").value(), 0.1);
  expect_error_names(file->integer("u16", 0, 100), {"m.gguf", "u16", "0", "100", "65535"});
  expect_error_names(file->integer("u64", 0, 100), {"m.gguf", "u64", "18446744073709551615"});
  expect_error_names(file->integer("f32", 0, 100), {"f32", "0.1"});
  expect_error_names(file->integer("bool", 0, 1), {"bool", "true"});
  expect_error_names(file->text("u8"), {"u8", "string", "255"});
  expect_error_names(file->number("a.u32"), {"a.u32", "array of 3 u32"});
  EXPECT_EQ(file->text("absent").error().code(), ErrorCode::kNotFound);
  EXPECT_EQ(file->number("absent").error().code(), ErrorCode::kNotFound);
  EXPECT_EQ(file->integer("absent", 0, 1).error().code(), ErrorCode::kNotFound);
}

TEST(Gguf, EveryTensorTypeHasItsSizeOrIsNamed) {
  struct Type {
    uint32_t number;
    BlockType type;
    int64_t elements, bytes;
  };
  const Type types[] = {{0, BlockType::kF32, 1, 4},       {1, BlockType::kF16, 1, 2},         {2, BlockType::kQ4_0, 32, 18},
                        {3, BlockType::kQ4_1, 32, 20},    {6, BlockType::kQ5_0, 32, 22},      {7, BlockType::kQ5_1, 32, 24},
                        {8, BlockType::kQ8_0, 32, 34},    {10, BlockType::kQ2_K, 256, 84},    {11, BlockType::kQ3_K, 256, 110},
                        {12, BlockType::kQ4_K, 256, 144}, {13, BlockType::kQ5_K, 256, 176},   {14, BlockType::kQ6_K, 256, 210},
                        {20, BlockType::kIQ4_NL, 32, 18}, {23, BlockType::kIQ4_XS, 256, 136}, {30, BlockType::kBF16, 1, 2}};
  for (const Type& t : types) {
    const auto row = static_cast<uint64_t>(t.elements * 3);
    const std::string data = zeros(static_cast<size_t>(2 * 3 * t.bytes));
    const std::string good = GgufBuilder().tensor("blk.0.w", {row, 2}, t.number, data).build();
    auto file = GgufFile::parse(as_bytes(good), "m");
    ASSERT_TRUE(file) << file.error().message();
    const StoredTensor& w = (*file)->tensors().front();
    EXPECT_EQ(w.type, t.type);
    EXPECT_EQ(w.data.size(), data.size());
    EXPECT_EQ(block_elements(t.type), t.elements);
    EXPECT_EQ(block_bytes(t.type), t.bytes);
    const std::string cut = GgufBuilder().tensor("blk.0.w", {row, 2}, t.number, data.substr(1)).build();
    expect_error_names(GgufFile::parse(as_bytes(cut), "m"), {"blk.0.w", std::to_string(data.size())});
    if (t.elements > 1) {
      const std::string ragged = GgufBuilder().tensor("blk.0.w", {row + 1, 2}, t.number, data + data).build();
      expect_error_names(GgufFile::parse(as_bytes(ragged), "m"),
                         {"blk.0.w", std::to_string(row + 1), std::to_string(t.elements), to_string(t.type)});
    }
  }
  const std::pair<uint32_t, const char*> refused[] = {{9, "Q8_1"}, {16, "IQ2_XXS"}, {19, "IQ1_S"},
                                                      {26, "I32"}, {28, "F64"},     {39, "MXFP4"}};
  for (const auto& [number, name] : refused) {
    const std::string bytes = GgufBuilder().tensor("odd", {256}, number, zeros(4096)).build();
    const auto file = GgufFile::parse(as_bytes(bytes), "m");
    expect_error_names(file, {"odd", name, std::to_string(number)});
    EXPECT_EQ(file.error().code(), ErrorCode::kUnsupported);
  }
}

// fil-gguf-tensor-faults, at other sizes: dims that wrap past 2^63 or to a small number, zero dims, bytes that wrap.
TEST(Gguf, ShapesThatWrapAreRefused) {
  const std::vector<std::vector<uint64_t>> shapes = {{uint64_t{1} << 63},
                                                     {uint64_t{1} << 62, 2},
                                                     {uint64_t{1} << 62, 4},
                                                     {3, uint64_t{1} << 62},
                                                     {uint64_t{1} << 62},
                                                     {0},
                                                     {4, 0},
                                                     {0, uint64_t{1} << 63},
                                                     {uint64_t{1} << 32, uint64_t{1} << 31},
                                                     {uint64_t{1} << 61, 1, 1, 1}};
  for (const auto& shape : shapes) {
    const std::string bytes = GgufBuilder().tensor("wide", shape, 0, zeros(64)).build();
    expect_error_names(GgufFile::parse(as_bytes(bytes), "m"), {"wide"});
  }
}

TEST(Gguf, FindsAnOverlapAmongManyTensors) {
  GgufBuilder b;
  for (int i = 0; i < 20000; ++i) b.tensor(fmt::format("t{}", i), {8}, 0, zeros(32));
  std::string bytes = b.build();
  const auto start = std::chrono::steady_clock::now();
  ASSERT_TRUE(GgufFile::parse(as_bytes(bytes), "m"));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(2)) << "a quadratic check takes far longer";
  // The offset of t19999, the last 8 bytes of its entry, moves into t7.
  const size_t at = bytes.find("t19999") + 6 + 4 + 8 + 4;
  const uint64_t offset = 7 * 32;
  std::memcpy(bytes.data() + at, &offset, 8);
  expect_error_names(GgufFile::parse(as_bytes(bytes), "m"), {"t7", "t19999"}, static_cast<int64_t>(at));
}

TEST(Gguf, AlignmentIsThatOfTheFile) {
  for (const uint32_t alignment : {1u, 8u, 64u, 4096u}) {
    GgufBuilder b;
    b.alignment = alignment;
    const std::string bytes = b.u32("general.alignment", alignment)
                                  .tensor("a", {1}, 0, GgufBuilder::raw(1.0f))
                                  .tensor("b", {1}, 0, GgufBuilder::raw(7.0f))
                                  .build();
    auto file = GgufFile::parse(as_bytes(bytes), "m");
    ASSERT_TRUE(file) << file.error().message();
    float x = 0;
    dequantize_rows(*(*file)->find("b"), 0, 1, &x);
    EXPECT_EQ(x, 7.0f) << alignment;
  }
}

TEST(Gguf, NestedArraysAndUnknownElementsAreRefusedByKey) {
  const std::string nested =
      GgufBuilder().key("deep", 9, GgufBuilder::raw<uint32_t>(9) + GgufBuilder::raw<uint64_t>(1)).build();
  expect_error_names(GgufFile::parse(as_bytes(nested), "m"), {"deep", "9"});
  const std::string unknown =
      GgufBuilder().key("deep", 9, GgufBuilder::raw<uint32_t>(77) + GgufBuilder::raw<uint64_t>(0)).build();
  expect_error_names(GgufFile::parse(as_bytes(unknown), "m"), {"deep", "77"});
}

// Every prefix of a valid file is refused without a crash, and so is, or parses, every file with one byte changed.
TEST(Gguf, TruncationAtEveryByteAndChangedBytes) {
  const std::string whole = every_type().build();
  for (size_t size = 0; size < whole.size(); ++size) {
    const std::string cut = whole.substr(0, size);  // own allocation: a sanitizer sees a read past the end
    const auto file = GgufFile::parse(as_bytes(cut), "m");
    ASSERT_FALSE(file) << size;
    EXPECT_NE(file.error().message().find("m: byte "), std::string::npos) << file.error().message();
  }
  for (size_t at = 0; at < whole.size(); ++at) {
    for (const int bit : {0, 3, 7}) {
      std::string changed = whole;
      changed[at] = static_cast<char>(changed[at] ^ (1 << bit));
      (void)GgufFile::parse(as_bytes(changed), "m");
    }
  }
}

TEST(Gguf, ManyStringsParseFast) {
  std::string strings;
  for (int i = 0; i < 262144; ++i) strings += GgufBuilder::string("token" + std::to_string(i));
  const std::string bytes =
      GgufBuilder()
          .key("tokenizer.ggml.tokens", 9, GgufBuilder::raw<uint32_t>(8) + GgufBuilder::raw<uint64_t>(262144) + strings)
          .build();
  const auto start = std::chrono::steady_clock::now();
  auto file = GgufFile::parse(as_bytes(bytes), "m").value();
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(1));  // about 5 ms; sanitizers are slower
  EXPECT_EQ(element<std::vector<std::string_view>>(*file, "tokenizer.ggml.tokens")[262143], "token262143");
}

TEST(Gguf, HostileNamesArePrintedSafely) {
  const std::string bytes =
      GgufBuilder().tensor(std::string("\x1b[31m\n\0", 7) + std::string(5000, 'x'), {1}, 200, zeros(4)).build();
  const auto file = GgufFile::parse(as_bytes(bytes), "m");
  ASSERT_FALSE(file);
  EXPECT_NE(file.error().message().find("\\x1b[31m\\x0a\\x00xxx"), std::string::npos);
  EXPECT_LT(file.error().message().size(), 500u);
}

// ---- split files

std::string shard(uint16_t number, uint16_t count, int32_t tensors, const std::string& tensor, float value) {
  GgufBuilder b;
  if (number == 0) b.text("general.architecture", "llama");
  b.u16("split.no", number).u16("split.count", count).i32("split.tensors.count", tensors);
  return b.tensor(tensor, {1}, 0, GgufBuilder::raw(value)).build();
}

TEST(GgufSplit, OpensEveryShard) {
  const TemporaryFolder folder;
  const std::string first = folder.write("m-00001-of-00003.gguf", shard(0, 3, 3, "a", 1));
  const std::string second = folder.write("m-00002-of-00003.gguf", shard(1, 3, 3, "b", 2));
  // The last one is not there yet.
  expect_error_names(GgufFile::open(first), {"m-00003-of-00003.gguf"});
  EXPECT_EQ(GgufFile::open(first).error().code(), ErrorCode::kNotFound);
  folder.write("m-00003-of-00003.gguf", shard(2, 3, 3, "c", 3));
  auto file = GgufFile::open(first);
  ASSERT_TRUE(file) << file.error().message();
  EXPECT_EQ((*file)->path(), first);
  EXPECT_EQ((*file)->tensors().size(), 3u);
  float x = 0;
  dequantize_rows(*(*file)->find("c"), 0, 1, &x);
  EXPECT_EQ(x, 3.0f);
  // Another shard as the model: the message says which file to give.
  expect_error_names(GgufFile::open(second), {"m-00001-of-00003.gguf", "2", "3"});
}

TEST(GgufSplit, ContradictionsAreNamed) {
  const TemporaryFolder folder;
  const std::string first = folder.write("m-00001-of-00002.gguf", shard(0, 2, 2, "a", 1));
  const auto with_second = [&](const std::string& bytes) {
    folder.write("m-00002-of-00002.gguf", bytes);
    return GgufFile::open(first);
  };
  expect_error_names(with_second(shard(0, 2, 2, "b", 2)), {"m-00002-of-00002.gguf", "split.no", "1", "0"});
  expect_error_names(with_second(shard(1, 3, 2, "b", 2)), {"m-00002-of-00002.gguf", "split.count", "2", "3"});
  expect_error_names(with_second(shard(1, 2, 2, "a", 2)), {"m-00002-of-00002.gguf", "a"});
  expect_error_names(with_second(GgufBuilder().build()), {"m-00002-of-00002.gguf", "split.no"});
  expect_error_names(with_second("GGUF"), {"m-00002-of-00002.gguf", "byte 4"});
  folder.write("m-00001-of-00002.gguf", shard(0, 2, 5, "a", 1));
  expect_error_names(with_second(shard(1, 2, 5, "b", 2)), {"split.tensors.count", "5", "2"});
  const std::string renamed = folder.write("other.gguf", shard(0, 2, 2, "a", 1));
  expect_error_names(GgufFile::open(renamed), {"other.gguf", "-00001-of-00002.gguf"});
  const std::string bytes = shard(0, 2, 2, "a", 1);
  expect_error_names(GgufFile::parse(as_bytes(bytes), "m"), {"split.count", "2"});
}

TEST(Gguf, FilesThatAreNotThereOrNotFiles) {
  EXPECT_EQ(GgufFile::open("/nonexistent/x.gguf").error().code(), ErrorCode::kNotFound);
  const TemporaryFolder folder;
  EXPECT_EQ(GgufFile::open(folder.path()).error().code(), ErrorCode::kIo);
  expect_error_names(GgufFile::open(folder.write("empty.gguf", "")), {"empty.gguf", "0"}, 0);
}

// ---- values that position arithmetic rests on; fil-gguf-value-faults at other keys, cfg-gguf-yarn

GgufBuilder llama() {
  GgufBuilder b;
  b.text("general.architecture", "llama").u32("llama.embedding_length", 576).u32("llama.attention.head_count", 9);
  return b;
}

void expect_bad(const GgufBuilder& b, const std::vector<std::string>& names) {
  const std::string bytes = b.build();
  expect_error_names(GgufFile::parse(as_bytes(bytes), "m"), names);
}

void expect_good(const GgufBuilder& b) {
  const std::string bytes = b.build();
  const auto file = GgufFile::parse(as_bytes(bytes), "m");
  EXPECT_TRUE(file) << file.error().message();
}

TEST(GgufPositionKeys, ImpossibleValuesAreRefusedByKey) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  expect_bad(llama().f32("llama.rope.scaling.factor", 0), {"llama.rope.scaling.factor", "0"});
  expect_bad(llama().f32("llama.rope.scaling.factor", kNan), {"llama.rope.scaling.factor", "nan"});
  expect_bad(llama().f32("llama.rope.scale_linear", -2), {"llama.rope.scale_linear", "-2"});
  expect_bad(llama().f32("llama.rope.freq_base_swa", -1), {"llama.rope.freq_base_swa", "-1"});
  expect_bad(llama().f32("llama.rope.scaling.yarn_ext_factor", 64), {"llama.rope.scaling.yarn_ext_factor", "64"});
  expect_bad(llama().u32("llama.rope.dimension_count", 0), {"llama.rope.dimension_count", "0"});
  expect_bad(llama().u32("llama.rope.dimension_count", 33), {"llama.rope.dimension_count", "33", "even"});
  expect_bad(llama().u32("llama.rope.dimension_count", 66), {"llama.rope.dimension_count", "66", "64"});
  expect_bad(llama().u32("llama.attention.head_count_kv", 2), {"llama.attention.head_count_kv", "2", "9"});
  expect_bad(llama().u32("llama.attention.head_count_kv", 0), {"llama.attention.head_count_kv", "0"});
  expect_bad(llama().u32("llama.attention.key_length", 32).u32("llama.rope.dimension_count", 64),
             {"llama.rope.dimension_count", "64", "32"});
  expect_bad(llama().u32("llama.context_length", 0), {"llama.context_length", "0"});
  expect_bad(llama().u32("llama.block_count", 0), {"llama.block_count", "0"});
  expect_bad(llama().text("llama.context_length", "8k"), {"llama.context_length", "8k"});
  expect_bad(llama().i32("llama.rope.scaling.original_context_length", -5),
             {"llama.rope.scaling.original_context_length", "-5"});
  expect_bad(GgufBuilder().u32("general.architecture", 5), {"general.architecture", "5"});
  expect_bad(GgufBuilder().text("general.architecture", "g").array<int32_t>("g.attention.head_count", 5, {4, -1}),
             {"g.attention.head_count"});
  expect_bad(GgufBuilder().text("general.architecture", "g").array<uint32_t>("g.attention.head_count", 4, {0, 0}),
             {"g.attention.head_count"});
  expect_bad(GgufBuilder().text("general.architecture", "g").array<float>("g.attention.head_count", 6, {4}),
             {"g.attention.head_count"});
}

TEST(GgufPositionKeys, PossibleValuesPass) {
  expect_good(
      llama().u32("llama.attention.head_count_kv", 3).u32("llama.rope.dimension_count", 64).f32("llama.rope.freq_base", 1e5f));
  expect_good(llama().u32("llama.rope.freq_base", 10000));  // an integer base
  expect_good(llama().u32("llama.attention.key_length", 128).u32("llama.rope.dimension_count", 128));
  expect_good(
      llama().f32("llama.rope.scaling.yarn_ext_factor", 1).f32("qwen2.rope.freq_base", -1));  // not the declared architecture
  expect_good(GgufBuilder().text("general.architecture", "g").array<uint32_t>("g.attention.head_count", 4, {8, 0, 4}));
}

}  // namespace
}  // namespace ropewalk
