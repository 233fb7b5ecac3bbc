#include "formats/safetensors.h"

#include <gtest/gtest.h>

#include "base/testing_folder.h"
#include "formats/testing_bytes.h"

namespace ropewalk {
namespace {

using testing::as_bytes;
using testing::BadFile;
using testing::expect_error_names;

void expect_refused(const BadFile& file) {
  const std::string bytes = testing::from_hex(file.hex);
  expect_error_names(parse_safetensors(as_bytes(bytes), "weights"), file.names, file.at_byte);
}

// A file with this header and that many bytes of data.
std::string file_of(const std::string& header, const std::string& data) {
  return testing::GgufBuilder::raw<uint64_t>(header.size()) + header + data;
}
std::string floats(std::initializer_list<float> values) {
  std::string out;
  for (const float v : values) out += testing::GgufBuilder::raw(v);
  return out;
}

// fil-safetensors-good: a correct file refused.
TEST(SafetensorsCases, Good) {
  const std::string bytes = testing::from_hex(
      "90000000000000007b225f5f6d657461646174615f5f223a7b22666f726d6174223a227074227d2c2261223a7b226474797065223a22463332222c22"
      "7368617065223a5b322c325d2c22646174615f6f666673657473223a5b302c31365d7d2c2262223a7b226474797065223a2242463136222c22736861"
      "7065223a5b325d2c22646174615f6f666673657473223a5b31362c32305d7d7d0000803f00000040000000bf00008040803f00c0");
  ASSERT_EQ(bytes.size(), 172u);
  auto file = parse_safetensors(as_bytes(bytes), "good");
  ASSERT_TRUE(file) << file.error().message();
  ASSERT_EQ((*file)->tensors().size(), 2u);
  const StoredTensor* a = (*file)->find("a");
  const StoredTensor* b = (*file)->find("b");
  ASSERT_TRUE(a != nullptr && b != nullptr);
  EXPECT_EQ(reinterpret_cast<const char*>(a->data.data()) - bytes.data(), 152);
  EXPECT_EQ(a->shape, (std::vector<int64_t>{2, 2}));
  EXPECT_EQ(b->type, BlockType::kBF16);
  float values[6];
  dequantize_rows(*a, 0, 2, values);
  dequantize_rows(*b, 0, 1, values + 4);
  EXPECT_EQ(std::vector<float>(values, values + 6), (std::vector<float>{1.0f, 2.0f, -0.5f, 4.0f, 1.0f, -2.0f}));
}

// fil-safetensors-header: a header length or header text trusted.
TEST(SafetensorsCases, Header) {
  const BadFile files[] = {
      {"00ca9a3b000000007b7d", {"1000000000", "10"}, -1},
      {"020000", {"3", "8"}, -1},
      {"03000000000000005b315d", {"object"}, -1},
      {"1f000000000000007b2261223a7b226474797065223a22463332222c227368617065223a5b325d", {"JSON"}, -1},
      {"08000000000000007b22fffe223a317d", {"UTF-8"}, -1},
  };
  for (const BadFile& file : files) expect_refused(file);
}

// fil-safetensors-offsets: offsets, shapes and types that contradict each other.
TEST(SafetensorsCases, Offsets) {
  const BadFile files[] = {
      {"37000000000000007b2261223a7b226474797065223a22463332222c227368617065223a5b345d2c22646174"
       "615f6f666673657473223a5b302c31325d7d7d00000000000000000000000000000000",
       {"a", "12", "16"},
       -1},
      {"37000000000000007b2261223a7b226474797065223a22463332222c227368617065223a5b345d2c22646174"
       "615f6f666673657473223a5b31362c305d7d7d00000000000000000000000000000000",
       {"a", "16", "0"},
       -1},
      {"37000000000000007b2261223a7b226474797065223a22463332222c227368617065223a5b345d2c22646174"
       "615f6f666673657473223a5b302c31365d7d7d0000000000000000",
       {"a", "16", "8"},
       -1},
      {"6c000000000000007b2261223a7b226474797065223a22463332222c227368617065223a5b325d2c22646174"
       "615f6f666673657473223a5b302c385d7d2c2262223a7b226474797065223a22463332222c22736861706522"
       "3a5b325d2c22646174615f6f666673657473223a5b342c31325d7d7d000000000000000000000000",
       {"a", "b"},
       -1},
      {"6d000000000000007b2261223a7b226474797065223a22463332222c227368617065223a5b325d2c22646174"
       "615f6f666673657473223a5b302c385d7d2c2262223a7b226474797065223a22463332222c22736861706522"
       "3a5b325d2c22646174615f6f666673657473223a5b31322c32305d7d7d000000000000000000000000000000"
       "0000000000",
       {"8", "12"},
       -1},
      {"37000000000000007b2261223a7b226474797065223a22463333222c227368617065223a5b345d2c22646174"
       "615f6f666673657473223a5b302c31365d7d7d00000000000000000000000000000000",
       {"a", "F33"},
       -1},
      {"4b000000000000007b2261223a7b226474797065223a22463332222c227368617065223a5b38353839393334"
       "3539322c383538393933343539325d2c22646174615f6f666673657473223a5b302c31365d7d7d0000000000"
       "0000000000000000000000",
       {"a", "8589934592"},
       -1},
      {"38000000000000007b2261223a7b226474797065223a22463332222c227368617065223a5b2d345d2c226461"
       "74615f6f666673657473223a5b302c31365d7d7d00000000000000000000000000000000",
       {"a", "-4"},
       -1},
      {"37000000000000007b2261223a7b226474797065223a22463332222c227368617065223a5b345d2c22646174"
       "615f6f666673657473223a5b302c31365d7d7d000000000000000000000000000000000000000000000000",
       {"16", "24"},
       -1},
      {"6b000000000000007b2261223a7b226474797065223a22463332222c227368617065223a5b315d2c22646174"
       "615f6f666673657473223a5b302c345d7d2c2261223a7b226474797065223a22463332222c22736861706522"
       "3a5b315d2c22646174615f6f666673657473223a5b342c385d7d7d0000000000000000",
       {"a"},
       -1},
  };
  for (const BadFile& file : files) expect_refused(file);
}

void expect_bad_header(const std::string& header, const std::string& data, const std::vector<std::string>& names) {
  const std::string bytes = file_of(header, data);
  expect_error_names(parse_safetensors(as_bytes(bytes), "weights"), names);
}

// The kinds of fil-safetensors-header and fil-safetensors-offsets, at other places.
TEST(Safetensors, StrictAboutTheHeader) {
  const std::string good = R"("dtype":"F32","shape":[1],"data_offsets":[0,4])";
  const std::string four(4, '\0');
  expect_bad_header("", "", {"JSON"});
  expect_bad_header("null", "", {"object"});
  expect_bad_header("{\"a\":{" + good + "}} x", four, {"JSON"});
  expect_bad_header("{\"a\":{" + good + ",\"dtype\":\"F32\"}}", four, {"a.dtype", "second"});
  expect_bad_header("{\"a\":{" + good + ",\"extra\":1}}", four, {"a", "4"});
  expect_bad_header("{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", four, {"a", "data_offsets"});
  expect_bad_header("{\"a\":7}", four, {"a", "7"});
  expect_bad_header("{\"\":{" + good + "}}", four, {"empty"});
  expect_bad_header("{\"__metadata__\":{\"x\":1},\"a\":{" + good + "}}", four, {"__metadata__"});
  expect_bad_header("{\"__metadata__\":[],\"a\":{" + good + "}}", four, {"__metadata__"});
  expect_bad_header(R"({"a":{"dtype":7,"shape":[1],"data_offsets":[0,4]}})", four, {"a", "dtype", "7"});
  expect_bad_header(R"({"a":{"dtype":"I64","shape":[1],"data_offsets":[0,8]}})", four + four, {"a", "I64"});
  expect_bad_header(R"({"a":{"dtype":"F32","shape":1,"data_offsets":[0,4]}})", four, {"a", "shape", "1"});
  expect_bad_header(R"({"a":{"dtype":"F32","shape":[1.0],"data_offsets":[0,4]}})", four, {"a", "shape"});
  expect_bad_header(R"({"a":{"dtype":"F32","shape":["1"],"data_offsets":[0,4]}})", four, {"a", "shape"});
  expect_bad_header(R"({"a":{"dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,4]}})", four,
                    {"a", "18446744073709551615"});
  expect_bad_header(R"({"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}})", "",
                    {"a", "4611686018427387904"});
  expect_bad_header(R"({"a":{"dtype":"F32","shape":[0,4611686018427387904,4],"data_offsets":[0,0]}})", "",
                    {"a", "4611686018427387904"});
  expect_bad_header(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0]}})", four, {"a", "data_offsets"});
  expect_bad_header(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[-4,0]}})", four, {"a", "-4"});
  expect_bad_header(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", four + four, {"a", "0", "4"});
  expect_bad_header("{\"a\":" + std::string(100, '[') + std::string(100, ']') + "}", "", {"levels"});
  expect_bad_header("\xef\xbb\xbf{}", "", {"byte order mark"});
}

TEST(Safetensors, EmptyTensorsAndScalarsAreFine) {
  const std::string bytes = file_of(
      R"({"s":{"dtype":"F32","shape":[],"data_offsets":[0,4]},"e":{"dtype":"F16","shape":[0,3],"data_offsets":[4,4]},"t":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}  )",
      floats({2, 3}));
  auto file = parse_safetensors(as_bytes(bytes), "w");
  ASSERT_TRUE(file) << file.error().message();
  EXPECT_EQ((*file)->find("e")->elements(), 0);
  EXPECT_EQ((*file)->find("s")->cols(), 1);
  float x = 0;
  dequantize_rows(*(*file)->find("t"), 0, 1, &x);
  EXPECT_EQ(x, 3.0f);
  const std::string none = file_of("{}", "");
  EXPECT_TRUE(parse_safetensors(as_bytes(none), "w"));
}

TEST(Safetensors, TruncationAtEveryByteAndChangedBytes) {
  const std::string whole = file_of(
      R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},"b":{"dtype":"F16","shape":[2],"data_offsets":[8,12]}})",
      floats({1, 2, 3}));
  ASSERT_TRUE(parse_safetensors(as_bytes(whole), "w"));
  for (size_t size = 0; size < whole.size(); ++size) {
    const std::string cut = whole.substr(0, size);
    ASSERT_FALSE(parse_safetensors(as_bytes(cut), "w")) << size;
  }
  for (size_t at = 0; at < whole.size(); ++at) {
    for (const int bit : {0, 2, 5, 7}) {
      std::string changed = whole;
      changed[at] = static_cast<char>(changed[at] ^ (1 << bit));
      (void)parse_safetensors(as_bytes(changed), "w");
    }
  }
}

// ---- folders and indexes

std::string one_tensor(const std::string& name, float value) {
  return file_of("{\"" + name + R"(":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", floats({value}));
}

// fil-index-missing-shard: an index that names a file that is not there.
TEST(SafetensorsCases, IndexMissingShard) {
  const TemporaryFolder folder;
  folder.write("model-00001-of-00002.safetensors", one_tensor("a", 1));
  folder.write("model.safetensors.index.json",
               R"({"weight_map":{"a":"model-00001-of-00002.safetensors","b":"model-00002-of-00002.safetensors"}})");
  expect_error_names(open_safetensors(folder.path()), {"model-00002-of-00002.safetensors", "b"});
  EXPECT_EQ(open_safetensors(folder.path()).error().code(), ErrorCode::kNotFound);
  folder.write("model-00002-of-00002.safetensors", one_tensor("b", 2));
  auto file = open_safetensors(folder.path());
  ASSERT_TRUE(file) << file.error().message();
  EXPECT_EQ((*file)->tensors().size(), 2u);
  float x = 0;
  dequantize_rows(*(*file)->find("b"), 0, 1, &x);
  EXPECT_EQ(x, 2.0f);
}

TEST(SafetensorsIndex, PathsThatLeaveTheFolderAreRefused) {
  const TemporaryFolder folder;
  for (const char* path : {"../x", "/etc/passwd", "a/b.safetensors", "..", ".", "", "a\\\\b", "x\\u0000y"}) {
    folder.write("model.safetensors.index.json", std::string(R"({"weight_map":{"w":")") + path + "\"}}");
    const auto file = open_safetensors(folder.path());
    expect_error_names(file, {"weight_map.w"});
    EXPECT_EQ(file.error().code(), ErrorCode::kCorrupt) << path;
  }
}

TEST(SafetensorsIndex, ContradictionsAreNamed) {
  const TemporaryFolder folder;
  folder.write("one.safetensors", one_tensor("a", 1));
  folder.write("two.safetensors", one_tensor("a", 2));
  const auto with_index = [&](const std::string& text) {
    return open_safetensors(folder.write("model.safetensors.index.json", text));
  };
  expect_error_names(with_index("[]"), {"weight_map"});
  expect_error_names(with_index("{}"), {"weight_map", "none"});
  expect_error_names(with_index(R"({"weight_map":[1]})"), {"weight_map"});
  expect_error_names(with_index(R"({"weight_map":{"a":7}})"), {"weight_map.a", "7"});
  expect_error_names(with_index(R"({"weight_map":{"a":"one.safetensors","a":"two.safetensors"}})"), {"weight_map.a", "second"});
  expect_error_names(with_index(R"({"weight_map":{"b":"one.safetensors"}})"), {"b", "one.safetensors"});
  expect_error_names(with_index(R"({"weight_map":{"a":"one.safetensors","c":"two.safetensors"}})"),
                     {"tensor a", "two.safetensors"});
  expect_error_names(with_index(R"({"weight_map":)"), {"model.safetensors.index.json", "JSON"});
}

TEST(SafetensorsFolder, FindsTheFileOrSaysWhatIsMissing) {
  const TemporaryFolder folder;
  expect_error_names(open_safetensors(folder.path()), {"model.safetensors", "model.safetensors.index.json", "0"});
  folder.write("weights.safetensors", one_tensor("w", 1));
  EXPECT_TRUE(open_safetensors(folder.path()));
  folder.write("more.safetensors", one_tensor("w", 2));
  expect_error_names(open_safetensors(folder.path()), {"2", "model.safetensors"});
  folder.write("model.safetensors", one_tensor("w", 3));
  EXPECT_TRUE(open_safetensors(folder.path()));
  EXPECT_EQ(open_safetensors(folder.path() + "/none.safetensors").error().code(), ErrorCode::kNotFound);
}

}  // namespace
}  // namespace ropewalk
