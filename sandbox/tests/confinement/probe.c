/* Makes one forbidden system call a child, and says what became of it. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

struct probe {
  const char *name;
  long call, a, b, c, d;
};

#define PLAIN(name) {#name, SYS_##name, -1, 0, 0, 0}
#define CLONE(flag) {"clone:" #flag, SYS_clone, flag | SIGCHLD, 0, 0, 0}
#define SOCKET(family, type, protocol) \
    {"socket:" #family ":" #type ":" #protocol, SYS_socket, family, type, protocol, 0}
#define FAMILY(family, type) {"socket:" #family ":" #type, SYS_socket, family, type, 0, 0}
#define CONTROL(name, number) {"ioctl:" #name, SYS_ioctl, 0, number, 0, 0}

static const struct probe probes[] = {
    {"unshare", SYS_unshare, CLONE_NEWUSER, 0, 0, 0},
    PLAIN(setns), PLAIN(mount), PLAIN(umount2), PLAIN(pivot_root), PLAIN(chroot),
    PLAIN(open_tree), PLAIN(move_mount), PLAIN(fsopen), PLAIN(fsmount), PLAIN(fsconfig),
    PLAIN(fspick), PLAIN(mount_setattr), PLAIN(ptrace), PLAIN(process_vm_readv),
    PLAIN(process_vm_writev), PLAIN(process_madvise), PLAIN(pidfd_getfd), PLAIN(kcmp),
    PLAIN(keyctl), PLAIN(add_key), PLAIN(request_key), PLAIN(bpf), PLAIN(perf_event_open),
    PLAIN(userfaultfd), PLAIN(open_by_handle_at), PLAIN(kexec_load), PLAIN(kexec_file_load),
    PLAIN(init_module), PLAIN(finit_module), PLAIN(delete_module), PLAIN(reboot), PLAIN(swapon),
    PLAIN(swapoff), PLAIN(acct), PLAIN(quotactl), PLAIN(fanotify_init), PLAIN(settimeofday),
    PLAIN(clock_settime), PLAIN(syslog), PLAIN(clone3), PLAIN(io_uring_setup),
    PLAIN(io_uring_enter), PLAIN(io_uring_register), PLAIN(openat2),
    {"personality", SYS_personality, 0x0040000, 0, 0, 0},
    CLONE(CLONE_NEWNS), CLONE(CLONE_NEWCGROUP), CLONE(CLONE_NEWUTS), CLONE(CLONE_NEWIPC),
    CLONE(CLONE_NEWUSER), CLONE(CLONE_NEWPID), CLONE(CLONE_NEWNET),
    SOCKET(AF_INET, SOCK_STREAM, 262), SOCKET(AF_INET6, SOCK_STREAM, 262),
    SOCKET(AF_INET, SOCK_DGRAM, 136), SOCKET(AF_INET, SOCK_STREAM, 132),
    SOCKET(AF_INET, SOCK_SEQPACKET, 0), SOCKET(AF_INET6, SOCK_SEQPACKET, 132),
    SOCKET(AF_INET, SOCK_STREAM, 6), SOCKET(AF_INET, SOCK_DGRAM, 17),
    SOCKET(AF_UNIX, SOCK_STREAM, 1), SOCKET(AF_UNIX, SOCK_SEQPACKET, 0),
    {"open_tree_attr", 467, -1, 0, 0, 0},
    FAMILY(AF_NETLINK, SOCK_DGRAM), FAMILY(AF_NETLINK, SOCK_RAW), FAMILY(AF_PACKET, SOCK_RAW),
    FAMILY(AF_VSOCK, SOCK_STREAM), FAMILY(AF_ALG, SOCK_SEQPACKET), FAMILY(AF_KEY, SOCK_RAW),
    FAMILY(AF_BLUETOOTH, SOCK_STREAM), FAMILY(AF_TIPC, SOCK_STREAM), FAMILY(AF_XDP, SOCK_RAW),
    FAMILY(AF_INET, SOCK_RAW), FAMILY(AF_INET6, SOCK_RAW), FAMILY(AF_INET, SOCK_PACKET),
    FAMILY(AF_INET, SOCK_DCCP), FAMILY(AF_UNIX, SOCK_RAW),
    {"socketpair:AF_TIPC", SYS_socketpair, AF_TIPC, SOCK_STREAM, 0, 0},
    CONTROL(TIOCSTI, 0x5412), CONTROL(TIOCLINUX, 0x541C), CONTROL(TIOCCONS, 0x541D),
    CONTROL(TIOCSETD, 0x5423),
    {"fcntl:F_SETLEASE", SYS_fcntl, 1, 1024, 1, 0},
    {"fcntl:F_SETLEASE:wide", SYS_fcntl, 1, 0x100000400, 1, 0},
    {"fcntl:F_SETDELEG", SYS_fcntl, 1, 1040, 0, 0},
    {"fcntl:F_NOTIFY", SYS_fcntl, 1, 1026, 0, 0},
    {"fcntl:F_GETFL", SYS_fcntl, 1, 3, 0, 0},
    {"fchmod:setuid", SYS_fchmod, 1, 04755, 0, 0},
    {"fchmod:setgid", SYS_fchmod, 1, 02755, 0, 0},
    {"fchmodat:setuid", SYS_fchmodat, AT_FDCWD, (long)"/tmp/x", 04755, 0},
    {"fchmodat2:setuid", 452, AT_FDCWD, (long)"/tmp/x", 04755, 0},
    {"openat:create:setuid", SYS_openat, AT_FDCWD, (long)"/tmp/x", O_CREAT | O_WRONLY, 04755},
    {"openat:tmpfile:setuid", SYS_openat, AT_FDCWD, (long)"/tmp", O_TMPFILE | O_WRONLY, 04755},
    {"mknodat:setuid", SYS_mknodat, AT_FDCWD, (long)"/tmp/y", 0104755, 0},
#ifdef __x86_64__
    PLAIN(iopl), PLAIN(ioperm), PLAIN(modify_ldt), PLAIN(uselib),
    {"chmod:setuid", SYS_chmod, (long)"/tmp/x", 04755, 0, 0},
    {"open:create:setuid", SYS_open, (long)"/tmp/x", O_CREAT | O_WRONLY, 04755, 0},
    {"creat:setuid", SYS_creat, (long)"/tmp/x", 04755, 0, 0},
    {"mknod:setuid", SYS_mknod, (long)"/tmp/y", 0104755, 0, 0},
    {"x32:getpid", 0x40000000 | SYS_getpid, 0, 0, 0, 0},
#endif
    {"socket:AF_INET:SOCK_STREAM", SYS_socket, AF_INET, SOCK_STREAM, 0, 0},
    {"socket:AF_UNIX:SOCK_DGRAM", SYS_socket, AF_UNIX, SOCK_DGRAM, 0, 0},
    {"openat:read", SYS_openat, AT_FDCWD, (long)"/etc/passwd", O_RDONLY, 07777},
    {"personality:query", SYS_personality, 0xffffffff, 0, 0, 0},
};

int main(void) {
  setvbuf(stdout, NULL, _IONBF, 0);
  for (size_t i = 0; i < sizeof probes / sizeof *probes; i++) {
    const struct probe *p = &probes[i];
    int status;
    pid_t child = fork();
    if (child == 0) {
      long got = syscall(p->call, p->a, p->b, p->c, p->d, 0, 0);
      _exit(got < 0 ? errno : 0);
    }
    waitpid(child, &status, 0);
    if (WIFSIGNALED(status))
      printf("%s %s\n", p->name, WTERMSIG(status) == SIGSYS ? "SIGSYS" : "SIGNAL");
    else
      printf("%s %d\n", p->name, WEXITSTATUS(status));
  }
#if defined(__x86_64__)
  pid_t child = fork();
  if (child == 0) {
    /* The 32-bit interface by interrupt: another architecture. */
    int got;
    __asm__ volatile("int $0x80" : "=a"(got) : "a"(20) : "memory");
    _exit(0);
  }
  int status;
  waitpid(child, &status, 0);
  printf("i386:getpid %s\n", WIFSIGNALED(status) ? "SIGSYS" : "0");
#endif
  return 0;
}
