/* Limits of this process. The list of refused system calls needs libseccomp; without it the other limits hold. */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#ifdef FRAMED_SECCOMP
#include <seccomp.h>
#endif

#include "tools/camera/confine.h"

/* A sanitizer needs terabytes of addresses, and reads the memory of its own process as a debugger does. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SANITIZED = 1 };
#else
enum { SANITIZED = 0 };
#endif

/* A decoder of 16 million pixels with 17 reference pictures takes 430 MB. Shared memory of the daemon does not count. */
#define MOST_MEMORY (UINT64_C(1) << 30)

void confine_secrets(void) {
  const struct rlimit none = {0, 0};
  (void)setrlimit(RLIMIT_CORE, &none);
  if (!SANITIZED) {
    (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  }
}

#ifdef FRAMED_SECCOMP
/* Programs, other processes, the kernel, and changes of the file system. Names that a kernel does not know are skipped. */
static const int refused[] = {
    SCMP_SYS(execve),
    SCMP_SYS(execveat),
    SCMP_SYS(ptrace),
    SCMP_SYS(process_vm_readv),
    SCMP_SYS(process_vm_writev),
    SCMP_SYS(kill),
    SCMP_SYS(tkill),
    SCMP_SYS(pidfd_open),
    SCMP_SYS(pidfd_getfd),
    SCMP_SYS(pidfd_send_signal),
    SCMP_SYS(fork),
    SCMP_SYS(vfork),
    SCMP_SYS(mount),
    SCMP_SYS(umount2),
    SCMP_SYS(pivot_root),
    SCMP_SYS(chroot),
    SCMP_SYS(setns),
    SCMP_SYS(unshare),
    SCMP_SYS(bpf),
    SCMP_SYS(perf_event_open),
    SCMP_SYS(userfaultfd),
    SCMP_SYS(io_uring_setup),
    SCMP_SYS(keyctl),
    SCMP_SYS(add_key),
    SCMP_SYS(request_key),
    SCMP_SYS(init_module),
    SCMP_SYS(finit_module),
    SCMP_SYS(kexec_load),
    SCMP_SYS(unlink),
    SCMP_SYS(unlinkat),
    SCMP_SYS(rename),
    SCMP_SYS(renameat),
    SCMP_SYS(renameat2),
    SCMP_SYS(mkdir),
    SCMP_SYS(mkdirat),
    SCMP_SYS(rmdir),
    SCMP_SYS(link),
    SCMP_SYS(linkat),
    SCMP_SYS(symlink),
    SCMP_SYS(symlinkat),
    SCMP_SYS(mknod),
    SCMP_SYS(mknodat),
    SCMP_SYS(chmod),
    SCMP_SYS(fchmod),
    SCMP_SYS(fchmodat),
    SCMP_SYS(chown),
    SCMP_SYS(fchown),
    SCMP_SYS(fchownat),
    SCMP_SYS(lchown),
    SCMP_SYS(truncate),
    SCMP_SYS(ftruncate),
    SCMP_SYS(creat),
    SCMP_SYS(setuid),
    SCMP_SYS(setgid),
    SCMP_SYS(listen),
    SCMP_SYS(accept),
    SCMP_SYS(accept4),
    SCMP_SYS(setsid),
    SCMP_SYS(swapon),
    SCMP_SYS(reboot),
};

/* Refuses open() and openat() whose flags are `value` under `mask`. */
static bool refuse_opening(scmp_filter_ctx filter, int mask, int value) {
  const scmp_datum_t bits = (scmp_datum_t)mask, wanted = (scmp_datum_t)value;
  return seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(openat), 1, SCMP_A2(SCMP_CMP_MASKED_EQ, bits, wanted)) == 0 &&
         seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(open), 1, SCMP_A1(SCMP_CMP_MASKED_EQ, bits, wanted)) == 0;
}

/* A camera of this machine is a file that is opened for writing. */
static bool refuse_calls(bool has_device) {
  scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
  bool good = filter != NULL;
  for (unsigned i = 0; good && i < sizeof refused / sizeof refused[0]; i++) {
    good = seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), refused[i], 0) == 0;
  }
  good = good && refuse_opening(filter, O_CREAT, O_CREAT) && refuse_opening(filter, O_TRUNC, O_TRUNC) &&
         refuse_opening(filter, O_ACCMODE, O_WRONLY) && (has_device || refuse_opening(filter, O_ACCMODE, O_RDWR)) &&
         /* its flags are in memory, where a filter cannot look; callers fall back to openat() */
         seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(openat2), 0) == 0 && seccomp_load(filter) == 0;
  seccomp_release(filter);
  return good;
}
#else
static bool refuse_calls(bool has_device) {
  (void)has_device;
  return true;
}
#endif

bool confine_all(bool has_device) {
  const struct rlimit memory = {MOST_MEMORY, MOST_MEMORY};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         (SANITIZED || (setrlimit(RLIMIT_DATA, &memory) == 0 && refuse_calls(has_device)));
}
