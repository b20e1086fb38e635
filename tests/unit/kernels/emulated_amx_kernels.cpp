// The kernels of AMX on emulated tiles, as `emulated_amx_table`. Compiled with the flags of AVX-512's
// (CMakeLists.txt).
#include "tests/unit/kernels/emulated_tiles.hpp"

#define amx_table emulated_amx_table
#include "kernels/cpu/tables/amx_kernels.cpp" // NOLINT(bugprone-suspicious-include)
