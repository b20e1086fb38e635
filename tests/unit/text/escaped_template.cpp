// A template that has escaped from Jinja2's sandbox: runs Python in a process with the confinement of a
// template process.
//
//    escaped_template BEFORE AFTER
//
// BEFORE runs before the confinement, for imports. The value of the expression AFTER is printed, or its
// exception. With "unfiltered" as a third word the kernel refuses the filter of system calls.
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "services/gateway/template/confinement.hpp"
#include "services/gateway/template/python_renderer.hpp"

#include <cerrno>
#include <cstdio>
#include <string>

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace {

/// As a container's runtime may do: prctl(PR_SET_SECCOMP) fails.
void refuse_filters() {
  sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_prctl, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PR_SET_SECCOMP, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{static_cast<unsigned short>(std::size(code)), code};
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0);
}

void say(const std::string& line) {
  (void)!write(STDOUT_FILENO, line.data(), line.size());
}

} // namespace

int main(int argc, char** argv) {
  if (argc < 3)
    return 2;
  const troupe::text::python_renderer python;
  PyObject* names = PyModule_GetDict(PyImport_AddModule("__main__"));
  if (PyRun_SimpleString(argv[1]) != 0)
    return 1;
  if (argc > 3)
    refuse_filters();
  const auto missing = troupe::text::confine(512UL << 20U);
  if (!missing.empty())
    say("without " + missing + ": ");
  PyObject* value = PyRun_String(argv[2], Py_eval_input, names, names);
  if (value == nullptr) {
    PyObject *type = nullptr, *trace = nullptr;
    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
  }
  say(PyUnicode_AsUTF8(PyObject_Repr(value)));
  _exit(0);
}
