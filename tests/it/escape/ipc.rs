//! Objects that processes of one user share by number or name: targets of the test's own, and the attacks.

use super::super::targets::Targets;
use super::Ways;
use serde::{Deserialize, Serialize};
use std::ffi::CString;

/// One of each kind, with nothing in them.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Shared {
    pub segment: i32,
    queue: i32,
    semaphores: i32,
    /// With its slash, as POSIX wants it.
    posix_queue: String,
}

#[repr(C)]
struct Message {
    kind: libc::c_long,
    text: [u8; 8],
}

impl Shared {
    pub fn new(name: &str) -> Self {
        let posix_queue = format!("/{name}");
        let path = CString::new(posix_queue.clone()).unwrap();
        // SAFETY: new objects of this process's user; the queue's name ends in NUL.
        unsafe {
            let made = Self {
                segment: libc::shmget(libc::IPC_PRIVATE, 4096, 0o600 | libc::IPC_CREAT),
                queue: libc::msgget(libc::IPC_PRIVATE, 0o600 | libc::IPC_CREAT),
                semaphores: libc::semget(libc::IPC_PRIVATE, 1, 0o600 | libc::IPC_CREAT),
                posix_queue,
            };
            let flags = libc::O_CREAT | libc::O_RDWR;
            let none = std::ptr::null_mut::<libc::mq_attr>();
            let posix = libc::mq_open(path.as_ptr(), flags, 0o600 as libc::mode_t, none);
            assert!(made.segment >= 0 && made.queue >= 0 && made.semaphores >= 0 && posix >= 0);
            libc::mq_close(posix);
            made
        }
    }

    /// The first byte of the segment.
    pub fn memory(&self) -> String {
        // SAFETY: a segment of ours, of one page.
        unsafe {
            let at = libc::shmat(self.segment, std::ptr::null(), libc::SHM_RDONLY);
            assert!(at as isize != -1);
            let byte = at.cast::<u8>().read();
            libc::shmdt(at);
            format!("{byte}")
        }
    }

    /// What is in the queues and what the semaphore stands at.
    pub fn queues(&self) -> String {
        let path = CString::new(self.posix_queue.clone()).unwrap();
        // SAFETY: structures of plain numbers, written by the calls.
        unsafe {
            let mut state: libc::msqid_ds = std::mem::zeroed();
            let there = libc::msgctl(self.queue, libc::IPC_STAT, &raw mut state);
            let value = libc::semctl(self.semaphores, 0, libc::GETVAL);
            let posix = libc::mq_open(path.as_ptr(), libc::O_RDONLY);
            let mut attributes: libc::mq_attr = std::mem::zeroed();
            libc::mq_getattr(posix, &raw mut attributes);
            libc::mq_close(posix);
            format!("{there} {} {value} {posix} {}", state.msg_qnum, attributes.mq_curmsgs)
                .replace(&format!(" {posix} "), if posix < 0 { " gone " } else { " there " })
        }
    }

    pub fn remove(&self) {
        let path = CString::new(self.posix_queue.clone()).unwrap();
        // SAFETY: objects of ours.
        unsafe {
            libc::shmctl(self.segment, libc::IPC_RMID, std::ptr::null_mut());
            libc::msgctl(self.queue, libc::IPC_RMID, std::ptr::null_mut());
            libc::semctl(self.semaphores, 0, libc::IPC_RMID);
            libc::mq_unlink(path.as_ptr());
        }
    }
}

pub fn sysv_shm(t: &Targets, ways: &mut Ways) {
    // SAFETY: what is attached is a segment of at least one byte.
    unsafe {
        let at = libc::shmat(t.shared.segment, std::ptr::null(), 0);
        if at as isize == -1 {
            ways.call("shmat", -1);
            return;
        }
        at.cast::<u8>().write(b'!');
        libc::shmdt(at);
        ways.tried("shmat", Ok(()));
    }
}

pub fn queues(t: &Targets, ways: &mut Ways) {
    let message = Message { kind: 1, text: *b"attacked" };
    let mut up = libc::sembuf { sem_num: 0, sem_op: 1, sem_flg: 0 };
    let path = CString::new(t.shared.posix_queue.clone()).unwrap();
    // SAFETY: a message and an operation of the sizes that are named; a text that ends in NUL.
    unsafe {
        let at = (&raw const message).cast();
        ways.call("msgsnd", libc::msgsnd(t.shared.queue, at, message.text.len(), 0));
        ways.call("semop", libc::semop(t.shared.semaphores, &raw mut up, 1));
        ways.call("semctl", libc::semctl(t.shared.semaphores, 0, libc::SETVAL, 7));
        let queue = libc::mq_open(path.as_ptr(), libc::O_WRONLY);
        ways.call("mq_open", queue);
        if queue >= 0 {
            ways.call("mq_send", libc::mq_send(queue, c"attacked".as_ptr(), 8, 0));
        }
        ways.call("mq_unlink", libc::mq_unlink(path.as_ptr()));
    }
}
