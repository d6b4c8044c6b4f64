//! A program of the classic BPF kind while it is written.

pub const ALLOW: u32 = 0x7fff_0000;
pub const NOTIFY: u32 = 0x7fc0_0000;
pub const KILL_PROCESS: u32 = 0x8000_0000;

pub const fn errno(number: i32) -> u32 {
    0x0005_0000 | (number.cast_unsigned() & 0xffff)
}

pub const LOAD: u16 = 0x20; // BPF_LD | BPF_W | BPF_ABS
pub const EQUAL: u16 = 0x15; // BPF_JMP | BPF_JEQ | BPF_K
pub const ANY_BIT: u16 = 0x45; // BPF_JMP | BPF_JSET | BPF_K
pub const AT_LEAST: u16 = 0x35; // BPF_JMP | BPF_JGE | BPF_K
pub const AND: u16 = 0x54; // BPF_ALU | BPF_AND | BPF_K
pub const RETURN: u16 = 0x06; // BPF_RET | BPF_K

pub const NUMBER_AT: u32 = 0;
pub const ARCH_AT: u32 = 4;

/// Where the low half of an argument lies. Both architectures are little-endian, and every argument
/// that is looked at is an `int` to the kernel, which reads no more of it either.
pub const fn argument(index: u32) -> u32 {
    16 + index * 8
}

pub const fn high_half(index: u32) -> u32 {
    argument(index) + 4
}

/// The program while it is written. Jumps only skip the next few instructions, so that every block
/// can be read alone; each block starts with the call's number loaded.
#[derive(Default)]
pub struct Program(pub Vec<libc::sock_filter>);

impl Program {
    pub fn put(&mut self, code: u16, k: u32, jt: u8, jf: u8) {
        self.0.push(libc::sock_filter { code, jt, jf, k });
    }

    pub fn load(&mut self, at: u32) {
        self.put(LOAD, at, 0, 0);
    }

    pub fn answer(&mut self, answer: u32) {
        self.put(RETURN, answer, 0, 0);
    }

    /// Answers a call by its number alone.
    pub fn call(&mut self, number: libc::c_long, answer: u32) {
        self.put(EQUAL, low(number), 0, 1);
        self.answer(answer);
    }

    /// A block for one call; it must end in an answer on every way.
    pub fn block(&mut self, number: libc::c_long, block: impl FnOnce(&mut Self)) {
        let start = self.0.len();
        self.put(EQUAL, low(number), 0, 0);
        block(self);
        let length = self.0.len() - start - 1;
        // Blocks have a handful of instructions; one that had more than a jump can skip would be cut
        // short by the kernel's own check of the program.
        self.0[start].jf = u8::try_from(length).unwrap_or(u8::MAX);
    }

    /// Answers where the accumulator is this.
    pub fn equal(&mut self, value: u32, answer: u32) {
        self.put(EQUAL, value, 0, 1);
        self.answer(answer);
    }

    pub fn any_bit(&mut self, bits: u32, answer: u32) {
        self.put(ANY_BIT, bits, 0, 1);
        self.answer(answer);
    }
}

pub fn low(number: libc::c_long) -> u32 {
    // System call numbers are small and positive.
    u32::try_from(number).unwrap_or(u32::MAX)
}
