// Accumulators stay in registers only where every loop over them is fully unrolled.
#pragma once

#if defined(__clang__)
#define ROPEWALK_UNROLL _Pragma("unroll")
#else
#define ROPEWALK_UNROLL _Pragma("GCC unroll 16")
#endif
