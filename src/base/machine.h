// Facts about the machine that plans, reports and envelopes state. Read once a call; nothing is cached.
#pragma once

#include <cstdint>
#include <string>

namespace ropewalk {

// As the kernel names it ("Intel(R) Xeon(R) ..."); the architecture ("aarch64") where it names none.
std::string cpu_name();
// Bytes of memory that this process may have at most: the machine's, or its control group's limit where that is lower.
int64_t memory_total();
// Bytes that can be taken now without swapping, within the control group's limit. 0 when the system does not say.
int64_t memory_available();
// The highest resident size of this process so far, in bytes.
int64_t peak_resident_bytes();
// From now on counts the highest resident size anew, and returns the present one: what a piece of work takes is
// peak_resident_bytes() after it, less this. -1 where the system cannot.
int64_t restart_peak_resident();

}  // namespace ropewalk
