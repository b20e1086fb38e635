# The CUDA backend, built with -DTROUPE_CUDA=ON. It has not run on a GPU.
#
# Our own rules call nvcc: CMake's CUDA language (3.25) does not know C++20 for it, selects unneeded architectures,
# and would make nvcc the linker of every user of the library.

option(TROUPE_CUDA "Build the kernels for NVIDIA GPUs, and their tests without one (needs CUDA 13)" OFF)
if(TROUPE_CUDA)
  find_package(CUDAToolkit 13.0 QUIET)
  if(NOT CUDAToolkit_FOUND)
    message(FATAL_ERROR "TROUPE_CUDA is ON and CUDA 13 was not found")
  endif()
  # NCCL is loaded when a program uses it.
  find_path(TROUPE_NCCL_INCLUDE_DIR nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
  if(NOT TROUPE_NCCL_INCLUDE_DIR)
    message(STATUS "nccl.h was not found, so NCCL's collectives are not built")
  endif()
endif()

# Further flags for nvcc. Only sm_90a, without PTX that a driver would compile for another chip at start.
set(troupe_cuda_flags
    -std=c++20
    -O3
    -lineinfo # line numbers for compute-sanitizer and profilers; the code is unchanged
    --fmad=false # the source determines the order of floating-point operations; fused ones are explicit
    --expt-relaxed-constexpr
    -gencode=arch=compute_90a,code=sm_90a
    --Werror=all-warnings
    -Xcompiler=-fPIC,-Wall,-Wextra,-Werror
    -I${PROJECT_SOURCE_DIR})

# troupe_cuda_objects(OUT FLAGS flag... SOURCES file.cu...): rules for the objects of a library; OUT receives their
# paths.
function(troupe_cuda_objects out)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "SUFFIX" "FLAGS;SOURCES")
  set(launcher ${CMAKE_CXX_COMPILER_LAUNCHER})
  set(objects)
  foreach(source IN LISTS arg_SOURCES)
    set(object "${CMAKE_CURRENT_BINARY_DIR}/${source}${arg_SUFFIX}.o")
    add_custom_command(
      OUTPUT "${object}"
      COMMAND ${launcher} "${CUDAToolkit_NVCC_EXECUTABLE}" ${troupe_cuda_flags} ${arg_FLAGS} -MD -MF "${object}.d" -c
              "${CMAKE_CURRENT_SOURCE_DIR}/${source}" -o "${object}"
      DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/${source}"
      DEPFILE "${object}.d"
      COMMENT "nvcc ${source}"
      VERBATIM)
    list(APPEND objects "${object}")
  endforeach()
  set(${out}
      ${objects}
      PARENT_SCOPE)
endfunction()
