// Long work can be stopped: it ends with kInterrupted, soon, and what is kept is whole.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "base/control.h"
#include "encodings/rope/settings.h"
#include "engine/forward.h"
#include "engine/model.h"

namespace ropewalk {
namespace {

class Stop : public testing::Test {
 protected:
  void SetUp() override {
    tokens_.resize(40);
    std::iota(tokens_.begin(), tokens_.end(), 0);
    for (int32_t& token : tokens_) token %= static_cast<int32_t>(model_.spec().vocabulary);
    control_.stop = &stop_;
  }
  Model model_ = Model::open_weights(std::string(ROPEWALK_SOURCE_DIR) + "/src/engine/golden/llama").value();
  LayerPositions positions_ = apply_setting(parse_setting("none").value(), model_.spec(), 64).value().layers;
  std::vector<int32_t> tokens_;
  std::atomic<bool> stop_{false};
  Control control_;
};

TEST_F(Stop, AWindowThatIsStoppedBeforeItStarts) {
  stop_ = true;
  const auto scores = score_window(model_, positions_, tokens_, {}, {}, control_);
  ASSERT_FALSE(scores);
  EXPECT_EQ(scores.error().code(), ErrorCode::kInterrupted);
}

// The flag is raised by the first report of progress, as a signal would raise it in the middle.
TEST_F(Stop, AWindowThatIsStoppedOnItsWay) {
  int reports = 0;
  control_.progress = [&](double done, double total) {
    EXPECT_LE(done, total);
    stop_ = true;
    ++reports;
  };
  const auto scores = score_window(model_, positions_, tokens_, {}, {}, control_);
  ASSERT_GE(reports, 1);
  ASSERT_FALSE(scores);
  EXPECT_EQ(scores.error().code(), ErrorCode::kInterrupted);
}

// After a stop the session is as it was: going on gives what a session that was never stopped gives, bit for bit.
TEST_F(Stop, ASessionGoesOnAfterAStop) {
  const std::span<const int32_t> all(tokens_);
  auto stopped = Session::make(model_, positions_, 64, {});
  auto straight = Session::make(model_, positions_, 64, {});
  ASSERT_TRUE(stopped && straight);
  ASSERT_TRUE(stopped->append(all.first(10), control_));
  ASSERT_TRUE(straight->append(all.first(10), control_));

  stop_ = true;
  const auto refused = stopped->append(all.subspan(10, 20), control_);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), ErrorCode::kInterrupted);
  EXPECT_EQ(stopped->length(), 10);

  stop_ = false;
  const auto got = stopped->append(all.subspan(10, 20), control_);
  const auto want = straight->append(all.subspan(10, 20), control_);
  ASSERT_TRUE(got && want);
  EXPECT_EQ(*got, *want);
}

}  // namespace
}  // namespace ropewalk
