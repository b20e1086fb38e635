# Functions that declare the targets of this project, one per kind of target.

option(TROUPE_WERROR "Treat warnings as errors" OFF)
set(TROUPE_SANITIZE "" CACHE STRING "Sanitizers to build with: empty, 'address,undefined' or 'thread'")

add_library(troupe_options INTERFACE)
add_library(troupe::options ALIAS troupe_options)
target_compile_features(troupe_options INTERFACE cxx_std_20)
target_include_directories(troupe_options INTERFACE "${PROJECT_SOURCE_DIR}")
target_compile_options(
  troupe_options
  INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wnon-virtual-dtor
            # The source determines the order of floating-point operations: no implicit contraction.
            -ffp-contract=off
            $<$<BOOL:${TROUPE_WERROR}>:-Werror>)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC collects its garbage less often: up to 15 % less time for a quarter more memory, which stays below 1 GB.
  target_compile_options(troupe_options INTERFACE "SHELL:--param ggc-min-expand=400" "SHELL:--param ggc-min-heapsize=300000")
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  # clang 14 has coroutines, but Asio does not detect them.
  target_compile_definitions(troupe_options INTERFACE __cpp_impl_coroutine=201902L BOOST_ASIO_HAS_CO_AWAIT
                                                      BOOST_ASIO_HAS_STD_COROUTINE)
  target_compile_options(troupe_options INTERFACE -Wno-builtin-macro-redefined)
endif()
if(TROUPE_SANITIZE)
  target_compile_options(troupe_options INTERFACE -fsanitize=${TROUPE_SANITIZE} -fno-omit-frame-pointer)
  target_link_options(troupe_options INTERFACE -fsanitize=${TROUPE_SANITIZE})
  if(TROUPE_SANITIZE MATCHES "undefined" AND CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    # Its prologue data does not survive the splitting of coroutines (clang 14: "difference across sections").
    target_compile_options(troupe_options INTERFACE -fno-sanitize=function)
  endif()
  if(TROUPE_SANITIZE STREQUAL "thread" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # It does not model fences, warns of each, and would report accesses ordered only by a fence as races.
    target_compile_options(troupe_options INTERFACE -Wno-tsan)
  endif()
endif()

# CAF's headers bind null references, which UBSan reports and we cannot change.
add_library(troupe_caf INTERFACE)
add_library(troupe::caf ALIAS troupe_caf)
if(TROUPE_SANITIZE STREQUAL "thread")
  # Precedes CAF's own library, so that the dynamic linker finds it first.
  add_library(troupe_tsan_caf SHARED "${PROJECT_SOURCE_DIR}/tests/tsan_caf.cpp")
  target_link_libraries(troupe_tsan_caf PRIVATE troupe::options CAF::core ${CMAKE_DL_LIBS})
  target_link_libraries(troupe_caf INTERFACE troupe_tsan_caf)
endif()
target_link_libraries(troupe_caf INTERFACE CAF::core)
if(TROUPE_SANITIZE MATCHES "undefined")
  target_compile_options(troupe_caf INTERFACE -fno-sanitize=null)
endif()

# Most of a source's compile time goes into headers that its neighbours include, too (STL, CAF, Asio, nlohmann::json): twelve
# endpoints take 13 s in one unit and 96 s in twelve. So a unit compiles up to unity_batch sources of one folder. Preset `clang`
# turns this off: each source is then compiled alone and must include what it uses.
option(TROUPE_UNITY "Compile the sources of a folder some at a time" ON)
set(unity_batch 12)

# troupe_unity(TARGET SOURCES file... [APART file...]): the sources after APART are units of their own.
function(troupe_unity target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;APART")
  if(NOT TROUPE_UNITY)
    return()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  # In a unit, GCC treats all files but one as headers, and would report their file-local names.
  target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
  foreach(source IN LISTS arg_SOURCES)
    if(source MATCHES "^[$]<") # objects
      continue()
    endif()
    cmake_path(IS_PREFIX CMAKE_BINARY_DIR "${source}" is_generated)
    if(source IN_LIST arg_APART OR is_generated)
      continue()
    endif()
    get_filename_component(folder "${source}" DIRECTORY)
    string(MAKE_C_IDENTIFIER "sources_${folder}" folder)
    list(APPEND folders ${folder})
    list(APPEND ${folder} ${source})
  endforeach()
  list(REMOVE_DUPLICATES folders)
  foreach(folder IN LISTS folders)
    # Units with about equal numbers of sources.
    list(LENGTH ${folder} num_sources)
    math(EXPR num_units "(${num_sources} + ${unity_batch} - 1) / ${unity_batch}")
    set(index 0)
    foreach(source IN LISTS ${folder})
      math(EXPR unit "${index} * ${num_units} / ${num_sources}")
      set_source_files_properties(${source} PROPERTIES UNITY_GROUP "${folder}_${unit}")
      math(EXPR index "${index} + 1")
    endforeach()
  endforeach()
endfunction()

# troupe_library(NAME SOURCES file... [APART file...] [PUBLIC target...] [PRIVATE target...])
function(troupe_library name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;APART;PUBLIC;PRIVATE")
  add_library(${name} STATIC ${arg_SOURCES})
  string(REGEX REPLACE "^troupe_" "troupe::" alias ${name})
  add_library(${alias} ALIAS ${name})
  target_link_libraries(${name} PUBLIC troupe::options ${arg_PUBLIC} PRIVATE ${arg_PRIVATE})
  troupe_unity(${name} SOURCES ${arg_SOURCES} APART ${arg_APART})
endfunction()

# troupe_executable(NAME SOURCES file... [PRIVATE target...]): a program for users, in <build>/bin.
function(troupe_executable name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;PRIVATE")
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE troupe::options ${arg_PRIVATE})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")
  install(TARGETS ${name} RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
endfunction()

# The programs that run under the thread sanitizer: those in which our own threads interact.
add_custom_target(tsan_tests)

# A helper of one test may have the name of a variable in another test of its unit.
add_library(troupe_test_options INTERFACE)
# GoogleTest's macros end with an if-else, which the compiler reports as dangling for single statements without braces.
target_compile_options(troupe_test_options INTERFACE -Wno-dangling-else)
if(TROUPE_UNITY)
  target_compile_options(troupe_test_options INTERFACE -Wno-shadow)
endif()

# troupe_test(NAME SOURCES file... [APART file...] [PRIVATE target...] [TSAN] [LABEL label] [TIMEOUT seconds]): a GoogleTest
# program; each of its cases is a ctest case with label 'unit', or the given one. TSAN: the label is 'unit-tsan', and the target
# tsan_tests builds it.
function(troupe_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "TSAN" "LABEL;TIMEOUT" "SOURCES;APART;PRIVATE")
  if(NOT BUILD_TESTING)
    return()
  endif()
  set(label unit)
  if(arg_LABEL)
    set(label ${arg_LABEL})
  endif()
  if(arg_TSAN)
    set(label unit-tsan) # one label: gtest_discover_tests loses the second of a list
    add_dependencies(tsan_tests ${name})
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 300) # ends hanging tests, but no test that is only slow on a busy machine
    if(TROUPE_SANITIZE)
      set(arg_TIMEOUT 900)
    endif()
  endif()
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE troupe::options ${arg_PRIVATE} GTest::gmock GTest::gtest GTest::gtest_main)
  troupe_unity(${name} SOURCES ${arg_SOURCES} APART ${arg_APART})
  target_link_libraries(${name} PRIVATE troupe_test_options)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/tests")
  target_compile_definitions(${name} PRIVATE TROUPE_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  gtest_discover_tests(
    ${name}
    DISCOVERY_MODE PRE_TEST
    DISCOVERY_TIMEOUT 120 # a program's list of tests; 5 s are too few for sanitizers on a busy machine
    NO_PRETTY_VALUES # parameters may be whole files, or bytes unfit for a terminal
    WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}"
    PROPERTIES TIMEOUT ${arg_TIMEOUT} LABELS ${label})
endfunction()
