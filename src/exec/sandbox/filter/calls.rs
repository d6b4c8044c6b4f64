//! Which calls are refused, and what gives them back.

pub const OPEN_TREE_ATTR: libc::c_long = 467;
pub const FILE_SETATTR: libc::c_long = 469;

/// System calls that no build or test needs and that lead out of the sandbox, or into the kernel's
/// less-trodden corners.
pub const REFUSED: &[libc::c_long] = &[
    libc::SYS_acct,
    libc::SYS_add_key,
    libc::SYS_adjtimex,
    libc::SYS_bpf,
    libc::SYS_chroot,
    libc::SYS_clock_adjtime,
    libc::SYS_clock_settime,
    libc::SYS_delete_module,
    libc::SYS_fanotify_init,
    libc::SYS_finit_module,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fsopen,
    libc::SYS_fspick,
    libc::SYS_init_module,
    libc::SYS_kexec_file_load,
    libc::SYS_kexec_load,
    libc::SYS_keyctl,
    libc::SYS_migrate_pages,
    libc::SYS_mount,
    libc::SYS_mount_setattr,
    libc::SYS_move_mount,
    libc::SYS_move_pages,
    libc::SYS_open_by_handle_at,
    libc::SYS_open_tree,
    OPEN_TREE_ATTR,
    libc::SYS_perf_event_open,
    libc::SYS_pidfd_getfd,
    libc::SYS_pivot_root,
    libc::SYS_process_madvise,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_reboot,
    libc::SYS_request_key,
    libc::SYS_setdomainname,
    libc::SYS_sethostname,
    libc::SYS_setns,
    libc::SYS_settimeofday,
    libc::SYS_swapoff,
    libc::SYS_swapon,
    libc::SYS_syslog,
    libc::SYS_umount2,
    libc::SYS_userfaultfd,
    libc::SYS_vhangup,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
];

/// What `allow_ptrace` gives back. Landlock keeps a tracer within its own command all the same.
pub const TRACING: &[libc::c_long] =
    &[libc::SYS_ptrace, libc::SYS_process_vm_readv, libc::SYS_process_vm_writev, libc::SYS_kcmp];

/// What `allow_io_uring` gives back. Its operations pass no filter, so that neither the supervisor nor
/// the rules on sockets see them.
pub const IO_URING: &[libc::c_long] =
    &[libc::SYS_io_uring_setup, libc::SYS_io_uring_enter, libc::SYS_io_uring_register];

/// What `allow_user_namespaces` gives back.
pub const NESTING: &[libc::c_long] = &[
    libc::SYS_chroot,
    libc::SYS_mount,
    libc::SYS_mount_setattr,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    OPEN_TREE_ATTR,
    libc::SYS_pivot_root,
    libc::SYS_sethostname,
    libc::SYS_umount2,
];

/// Objects that processes of the same user share by number or name. Which of them are a command's own
/// nobody can tell; an IPC namespace makes all of them so. What `allow_sysv_ipc` gives back.
pub const IPC: &[libc::c_long] = &[
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_msgget,
    libc::SYS_msgsnd,
    libc::SYS_msgrcv,
    libc::SYS_msgctl,
    libc::SYS_semget,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_semctl,
];

/// POSIX message queues. Landlock lets none be opened; it does not know that one is removed.
pub const QUEUES: &[libc::c_long] = &[libc::SYS_mq_open, libc::SYS_mq_unlink];

/// Calls that set something of another process of the same user, by its id in the first argument.
/// Without a process namespace that could be the runner.
pub const OTHERS: &[libc::c_long] =
    &[libc::SYS_sched_setattr, libc::SYS_sched_setparam, libc::SYS_sched_setscheduler];

/// What changes files outside by a descriptor that can only read, which Landlock lets through: flags of
/// files (FS_IOC_SETFLAGS, FS_IOC_FSSETXATTR, their versions, FAT's), seals and keys (verity, encryption),
/// and subvolumes.
pub const FILE_CONTROLS: &[u32] = &[
    0x4008_6602,
    0x4004_6602,
    0x401c_5820,
    0x4008_7602,
    0x4004_7602,
    0x4008_6604,
    0x4004_6604,
    0x4004_7211,
    0x4080_6685,
    0x800c_6613,
    0x5000_9401,
    0x5000_940e,
    0x5000_940f,
    0x5000_9417,
    0x5000_9418,
    0x4008_941a,
    0x5000_943f,
    0xc0c8_9425,
];
