# Finds CAF 0.17: Debian's headers and libraries come without a CMake package.
#
# Defines CAF::core and CAF::io. Only the transport benchmark uses CAF::io (BASP), for comparison.
find_path(CAF_INCLUDE_DIR caf/config.hpp)
find_library(CAF_CORE_LIBRARY caf_core)
find_library(CAF_IO_LIBRARY caf_io)
mark_as_advanced(CAF_INCLUDE_DIR CAF_CORE_LIBRARY CAF_IO_LIBRARY)

if(CAF_INCLUDE_DIR)
  # "#define CAF_VERSION 1706" is major * 10000 + minor * 100 + patch.
  file(STRINGS "${CAF_INCLUDE_DIR}/caf/config.hpp" caf_version_line REGEX "#define CAF_VERSION [0-9]+")
  string(REGEX MATCH "[0-9]+$" caf_version_number "${caf_version_line}")
  math(EXPR caf_major "${caf_version_number} / 10000")
  math(EXPR caf_minor "(${caf_version_number} / 100) % 100")
  math(EXPR caf_patch "${caf_version_number} % 100")
  set(CAF_VERSION "${caf_major}.${caf_minor}.${caf_patch}")
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(
  CAF
  REQUIRED_VARS CAF_CORE_LIBRARY CAF_IO_LIBRARY CAF_INCLUDE_DIR
  VERSION_VAR CAF_VERSION
  HANDLE_VERSION_RANGE)

if(CAF_FOUND AND NOT TARGET CAF::core)
  find_package(Threads REQUIRED)
  add_library(CAF::core UNKNOWN IMPORTED)
  set_target_properties(
    CAF::core PROPERTIES IMPORTED_LOCATION "${CAF_CORE_LIBRARY}"
                         INTERFACE_INCLUDE_DIRECTORIES "${CAF_INCLUDE_DIR}"
                         INTERFACE_LINK_LIBRARIES Threads::Threads)
  add_library(CAF::io UNKNOWN IMPORTED)
  set_target_properties(
    CAF::io PROPERTIES IMPORTED_LOCATION "${CAF_IO_LIBRARY}"
                       INTERFACE_INCLUDE_DIRECTORIES "${CAF_INCLUDE_DIR}"
                       INTERFACE_LINK_LIBRARIES CAF::core)
endif()
