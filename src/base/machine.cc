#include "base/machine.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <sys/resource.h>
#include <sys/utsname.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <limits>
#include <string_view>

namespace ropewalk {
namespace {

constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();

std::string_view trim(std::string_view text) {
  const auto first = text.find_first_not_of(" \t");
  return first == std::string_view::npos ? std::string_view{} : text.substr(first);
}

// The value behind "key<spaces>:" in a /proc file; empty when absent.
std::string proc_field(const char* path, std::string_view key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const auto colon = line.find(':');
    if (colon == std::string::npos || line.compare(0, key.size(), key) != 0) continue;
    if (std::string_view(line).substr(key.size(), colon - key.size()).find_first_not_of(" \t") != std::string_view::npos)
      continue;
    return std::string(trim(std::string_view(line).substr(colon + 1)));
  }
  return {};
}

int64_t meminfo_bytes(std::string_view key) {
  const std::string text = proc_field("/proc/meminfo", key);
  int64_t kib = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), kib);
  return error == std::errc{} && kib >= 0 && kib < kUnlimited / 1024 ? kib * 1024 : 0;
}

// A control group's file holds one number, or "max"; version 1 writes "no limit" as a number near 2^63.
int64_t group_bytes(const std::string& path, int64_t absent) {
  std::ifstream file(path);
  int64_t value = 0;
  return file >> value && value >= 0 ? value : absent;
}

// Looks at the group as the process sees it, which inside a container is the root of the mount.
struct Group {
  int64_t limit = kUnlimited;
  int64_t used = 0;
};
Group memory_group() {
  Group group;
  group.limit = group_bytes("/sys/fs/cgroup/memory.max", kUnlimited);
  if (group.limit != kUnlimited) {
    group.used = group_bytes("/sys/fs/cgroup/memory.current", 0);
    return group;
  }
  group.limit = group_bytes("/sys/fs/cgroup/memory/memory.limit_in_bytes", kUnlimited);
  group.used = group_bytes("/sys/fs/cgroup/memory/memory.usage_in_bytes", 0);
  return group;
}

}  // namespace

std::string cpu_name() {
  for (const char* key : {"model name", "Model", "Hardware"}) {
    if (std::string name = proc_field("/proc/cpuinfo", key); !name.empty()) return name;
  }
  utsname system{};
  return uname(&system) == 0 ? system.machine : "unknown";
}

int64_t memory_total() { return std::min(meminfo_bytes("MemTotal"), memory_group().limit); }

int64_t memory_available() {
  const Group group = memory_group();
  const int64_t left = group.limit == kUnlimited ? kUnlimited : std::max<int64_t>(0, group.limit - group.used);
  return std::min(meminfo_bytes("MemAvailable"), left);
}

int64_t restart_peak_resident() {
#ifdef __GLIBC__
  malloc_trim(0);  // what was freed does not count
#endif
  std::ofstream reset("/proc/self/clear_refs");
  if (!(reset << 5 << std::flush)) return -1;
  const std::string resident = proc_field("/proc/self/status", "VmRSS");  // "1234 kB"
  return resident.empty() ? -1 : std::strtoll(resident.c_str(), nullptr, 10) * 1024;
}

int64_t peak_resident_bytes() {
  rusage usage{};
  return getrusage(RUSAGE_SELF, &usage) == 0 ? int64_t{usage.ru_maxrss} * 1024 : 0;
}

}  // namespace ropewalk
