// The system calls that a template process keeps, as a seccomp filter.
#pragma once

namespace troupe::text {

/// From now on every system call of this thread but those that a single-threaded Python needs to compute, and
/// to talk over the sockets that are open, fails with EPERM. Needs no_new_privs.
/// @returns 0, or the errno that says why the kernel refuses
int install_syscall_filter();

} // namespace troupe::text
