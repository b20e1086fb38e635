# Writes a source with an id of the kernels: a hash of their sources, the compiler and its flags. Plans that were
# measured with other kernels are not used (kernels/model/plan_store.hpp).
#
#    cmake -DFOLDER=kernels -DCOMPILER="GNU 12.2.0 -O2" -DOUT=kernel_build_id.cpp -P kernel_build_id.cmake
file(GLOB sources ${FOLDER}/*.hpp ${FOLDER}/*.cpp ${FOLDER}/CMakeLists.txt ${FOLDER}/cpu/*/*.hpp ${FOLDER}/cpu/*/*.cpp
     ${FOLDER}/cpu/*/*/*.hpp)
list(SORT sources)
set(hashes "${COMPILER}")
foreach(source IN LISTS sources)
  file(SHA256 ${source} hash)
  string(APPEND hashes ${hash})
endforeach()
string(SHA256 id "${hashes}")
string(SUBSTRING ${id} 0 16 id)
file(
  CONFIGURE
  OUTPUT
  ${OUT}
  CONTENT
  "#include \"kernels/model/plan_store.hpp\"

namespace troupe::model {

std::string kernel_build_id() {
  return \"${id}\";
}

} // namespace troupe::model
")
