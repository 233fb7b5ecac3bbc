// mapped_file.h and atomic_file.h: whole, or a clear error and nothing left behind.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "base/atomic_file.h"
#include "base/mapped_file.h"
#include "base/testing_folder.h"

namespace ropewalk {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class Files : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const { return folder_ / name; }
  std::string put(const std::string& name, const std::string& text) const { return folder_.write(name, text); }
  size_t entries() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(folder_.path()), fs::directory_iterator()));
  }

  TemporaryFolder folder_;
};

TEST_F(Files, MapsAllBytes) {
  std::string text(100001, '\0');
  for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * 7);
  const auto file = MappedFile::open(put("a", text));
  ASSERT_TRUE(file);
  ASSERT_EQ(file->bytes().size(), text.size());
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(file->bytes().data()), text.size()), text);
  EXPECT_EQ(file->path(), path("a"));
}

TEST_F(Files, MapsAnEmptyFile) {
  const auto file = MappedFile::open(put("empty", ""));
  ASSERT_TRUE(file);
  EXPECT_TRUE(file->bytes().empty());
}

TEST_F(Files, AMapMovesAndOutlivesTheName) {
  auto first = MappedFile::open(put("a", "first"));
  auto second = MappedFile::open(put("b", "second"));
  ASSERT_TRUE(first && second);
  fs::remove(path("b"));
  *first = *std::move(second);
  ASSERT_EQ(first->bytes().size(), 6u);
  EXPECT_EQ(static_cast<char>(first->bytes()[5]), 'd');
  EXPECT_TRUE(second->bytes().empty());  // NOLINT(bugprone-use-after-move): empty is what a moved-from map promises
  const MappedFile third = *std::move(first);
  EXPECT_EQ(third.bytes().size(), 6u);
}

TEST_F(Files, MapErrorsNameThePath) {
  const auto absent = MappedFile::open(path("absent"));
  ASSERT_FALSE(absent);
  EXPECT_EQ(absent.error().code(), ErrorCode::kNotFound);
  EXPECT_THAT(absent.error().message(), HasSubstr(path("absent")));

  const auto below_a_file = MappedFile::open(put("a", "x") + "/b");
  EXPECT_EQ(below_a_file.error().code(), ErrorCode::kNotFound);

  const auto folder = MappedFile::open(folder_.path());
  EXPECT_EQ(folder.error().code(), ErrorCode::kIo);
  EXPECT_THAT(folder.error().message(), HasSubstr("a folder"));

  EXPECT_EQ(MappedFile::open("/dev/null").error().code(), ErrorCode::kIo);
  EXPECT_EQ(MappedFile::open("").error().code(), ErrorCode::kNotFound);
  EXPECT_EQ(MappedFile::open(std::string(5000, 'x')).error().code(), ErrorCode::kIo);
  EXPECT_EQ(MappedFile::open(path("a") + std::string("\0.txt", 5)).error().code(), ErrorCode::kIo);
}

TEST_F(Files, APipeWithoutAWriterDoesNotHang) {
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  EXPECT_EQ(MappedFile::open(path("pipe")).error().code(), ErrorCode::kIo);
}

TEST_F(Files, ReadFileHasALimit) {
  put("a", "12345");
  EXPECT_EQ(*read_file(path("a"), 5), "12345");
  const auto refused = read_file(path("a"), 4);
  EXPECT_EQ(refused.error().code(), ErrorCode::kTooLarge);
  EXPECT_THAT(refused.error().message(), HasSubstr("at most 4 bytes, but got 5"));
  EXPECT_EQ(read_file(path("absent")).error().code(), ErrorCode::kNotFound);
}

TEST_F(Files, WritesAndReplaces) {
  const std::string binary("a\0b\n", 4);
  ASSERT_TRUE(write_file_atomically(path("out"), binary));
  EXPECT_EQ(*read_file(path("out")), binary);
  ASSERT_TRUE(write_file_atomically(path("out"), ""));
  EXPECT_EQ(*read_file(path("out")), "");
  EXPECT_EQ(entries(), 1u);
}

TEST_F(Files, WriteObeysTheUmask) {
  const mode_t before = ::umask(027);
  ASSERT_TRUE(write_file_atomically(path("out"), "x"));
  ::umask(before);
  struct stat info {};
  ASSERT_EQ(::stat(path("out").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0640u);
}

TEST_F(Files, WriteErrorsLeaveNothing) {
  const auto no_folder = write_file_atomically(path("no/such/out"), "x");
  EXPECT_EQ(no_folder.error().code(), ErrorCode::kIo);
  EXPECT_THAT(no_folder.error().message(), HasSubstr(path("no/such/out")));

  fs::create_directory(path("taken"));
  put("taken/inside", "kept");
  const auto a_folder = write_file_atomically(path("taken"), "x");
  EXPECT_EQ(a_folder.error().code(), ErrorCode::kIo);
  EXPECT_EQ(*read_file(path("taken/inside")), "kept");
  EXPECT_EQ(entries(), 1u);  // no temporary file is left
}

TEST_F(Files, ThreadsThatWriteTheSameFileLeaveOneWholeVersion) {
  std::vector<std::thread> writers;
  for (int t = 0; t < 4; ++t) {
    writers.emplace_back([&, t] {
      for (int i = 0; i < 10; ++i)
        EXPECT_TRUE(write_file_atomically(path("out"), std::string(20000, static_cast<char>('a' + t))));
    });
  }
  for (auto& writer : writers) writer.join();
  const std::string text = *read_file(path("out"));
  EXPECT_EQ(text, std::string(20000, text[0]));
  EXPECT_EQ(entries(), 1u);
}

// Runs `body` in a child process, whose limits and user may be changed; returns its exit status.
template <class Body>
int in_child(Body body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body());
  int status = -1;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

// A limit on the size of files stands for the full disk: write() takes a part and then refuses the rest.
TEST_F(Files, AFullDiskLeavesTheOldFile) {
  put("out", "the old text");
  const int status = in_child([&] {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{4096, 4096};
    if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) return 10;
    const auto written = write_file_atomically(path("out"), std::string(100000, 'x'));
    if (written) return 11;
    if (written.error().code() != ErrorCode::kIo) return 12;
    const std::string message = written.error().message();
    return message.find("out") != std::string::npos && message.find("100000") != std::string::npos ? 0 : 13;
  });
  EXPECT_EQ(status, 0);
  EXPECT_EQ(*read_file(path("out")), "the old text");
  EXPECT_EQ(entries(), 1u);
}

// Root may write anywhere, so the child becomes somebody else where it is root.
TEST_F(Files, AFolderThatMayNotBeWritten) {
  put("out", "the old text");
  ASSERT_EQ(::chmod(folder_.path().c_str(), 0555), 0);
  const int status = in_child([&] {
    if (::geteuid() == 0 && (::setgid(65534) != 0 || ::setuid(65534) != 0)) return 10;
    const auto written = write_file_atomically(path("out"), "x");
    return !written && written.error().code() == ErrorCode::kIo ? 0 : 11;
  });
  ASSERT_EQ(::chmod(folder_.path().c_str(), 0755), 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(*read_file(path("out")), "the old text");
  EXPECT_EQ(entries(), 1u);
}

}  // namespace
}  // namespace ropewalk
