#include "formats/tokenizer/chat.h"

#include "formats/tokenizer/testing_tokenizer.h"

namespace ropewalk {
namespace {

TEST(Chat, SaysWhenATemplateIsNotInTheTable) {
  EXPECT_EQ(find_chat_format("").error().code(), ErrorCode::kNotFound);
  const auto unknown = find_chat_format("{{ messages | tojson }}");
  testing::expect_error_names(unknown, {"chatml", "llama-2", "llama-3", "gemma", "mistral", "phi-3", "zephyr"});
  EXPECT_EQ(unknown.error().code(), ErrorCode::kUnsupported);
}

TEST(Chat, NameAndStop) {
  const auto format = find_chat_format("'<|im_start|>' '<|im_end|>'");
  ASSERT_TRUE(format);
  EXPECT_EQ(format->name, "chatml");
  EXPECT_EQ(format->stop, "<|im_end|>");
  EXPECT_EQ(format->default_system, "");
}

// Phi 4 shares two of ChatML's marks and is another format.
TEST(Chat, LooksLikeIsNotIs) {
  EXPECT_EQ(find_chat_format("<|im_start|>user<|im_sep|>x<|im_end|>").error().code(), ErrorCode::kUnsupported);
}

TEST(Chat, Llama31OpensWithItsDates) {
  const auto format = find_chat_format("<|start_header_id|> <|eot_id|> Cutting Knowledge Date: December 2023");
  ASSERT_TRUE(format);
  EXPECT_EQ(format->name, "llama-3.1");
  const std::vector<ChatTurn> turns = {{ChatRole::kUser, "Hi"}};
  EXPECT_EQ(*render_chat(*format, turns, "<b>", "<e>", true),
            "<|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023\nToday Date: 26 Jul "
            "2024\n\n<|eot_id|>"
            "<|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n");
}

TEST(Chat, RefusesSystemTurnsThatHaveNoPlace) {
  const auto gemma = find_chat_format("<start_of_turn> <end_of_turn>");
  ASSERT_TRUE(gemma);
  const std::vector<ChatTurn> late = {{ChatRole::kUser, "a"}, {ChatRole::kSystem, "b"}};
  testing::expect_error_names(render_chat(*gemma, late, "", "", false), {"system", "1"});
  const auto mistral = find_chat_format("{{ '[INST] ' + x + ' [/INST]' }}");
  ASSERT_TRUE(mistral);
  const std::vector<ChatTurn> first = {{ChatRole::kSystem, "a"}, {ChatRole::kUser, "b"}};
  EXPECT_EQ(render_chat(*mistral, first, "", "", false).error().code(), ErrorCode::kInvalidArgument);
}

// The words of a turn are the user's: "{eos}" in them is text. And a BOS that the tokenizer adds is not written twice.
TEST(Chat, FillsInTokensInTheFormatOnly) {
  const auto format = find_chat_format("<start_of_turn> <end_of_turn>");
  ASSERT_TRUE(format);
  const std::vector<ChatTurn> turns = {{ChatRole::kUser, " {eos}{bos} "}};
  EXPECT_EQ(*render_chat(*format, turns, "<bos>", "<eos>", true),
            "<start_of_turn>user\n{eos}{bos}<end_of_turn>\n<start_of_turn>model\n");
  EXPECT_TRUE(render_chat(*format, turns, "<bos>", "<eos>", false)->starts_with("<bos><start_of_turn>"));
}

}  // namespace
}  // namespace ropewalk
