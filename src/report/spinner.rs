//! The spinner of a terminal. It draws into memory and the bytes go through [`Output`] like all
//! others, so that a terminal that is held (Ctrl-S) holds nothing else.

use super::output::Output;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle, TermLike};
use std::fmt::Write as _;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

/// Columns of a terminal that does not tell.
const DEFAULT_WIDTH: u16 = 80;

pub(super) struct Spinner {
    bar: ProgressBar,
    canvas: Canvas,
}

impl Spinner {
    pub(super) fn new() -> Self {
        let canvas = Canvas::default();
        let target = ProgressDrawTarget::term_like(Box::new(canvas.clone()));
        let bar = ProgressBar::with_draw_target(None, target);
        if let Ok(style) = ProgressStyle::with_template("{spinner} {wide_msg}") {
            bar.set_style(style);
        }
        Self { bar, canvas }
    }

    /// A line above the spinner.
    pub(super) async fn line(&self, line: &str, output: &Output) {
        self.bar.println(line);
        output.stderr_bytes(self.canvas.take()).await;
    }

    /// What the spinner says from now on.
    pub(super) fn say(&self, message: String) {
        self.bar.set_message(message);
    }

    /// The next frame; left out when the terminal does not keep up.
    pub(super) fn tick(&self, output: &Output) {
        self.bar.tick();
        output.try_stderr_bytes(self.canvas.take());
    }

    /// Takes the spinner off the screen.
    pub(super) async fn clear(&self, output: &Output) {
        self.bar.finish_and_clear();
        output.stderr_bytes(self.canvas.take()).await;
    }
}

/// What was drawn and not yet sent.
#[derive(Debug, Clone, Default)]
struct Canvas(Arc<Mutex<String>>);

impl Canvas {
    fn take(&self) -> Vec<u8> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner)).into_bytes()
    }

    fn push(&self, text: &str) -> io::Result<()> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push_str(text);
        Ok(())
    }

    fn control(&self, count: usize, code: char) -> io::Result<()> {
        if count > 0 {
            // Writing into a String cannot fail.
            let _ =
                write!(self.0.lock().unwrap_or_else(PoisonError::into_inner), "\x1b[{count}{code}");
        }
        Ok(())
    }
}

impl TermLike for Canvas {
    fn width(&self) -> u16 {
        let size = rustix::termios::tcgetwinsize(io::stderr());
        size.ok().map(|size| size.ws_col).filter(|width| *width > 0).unwrap_or(DEFAULT_WIDTH)
    }

    fn move_cursor_up(&self, n: usize) -> io::Result<()> {
        self.control(n, 'A')
    }

    fn move_cursor_down(&self, n: usize) -> io::Result<()> {
        self.control(n, 'B')
    }

    fn move_cursor_right(&self, n: usize) -> io::Result<()> {
        self.control(n, 'C')
    }

    fn move_cursor_left(&self, n: usize) -> io::Result<()> {
        self.control(n, 'D')
    }

    fn write_line(&self, s: &str) -> io::Result<()> {
        self.push(s)?;
        self.push("\r\n")
    }

    fn write_str(&self, s: &str) -> io::Result<()> {
        self.push(s)
    }

    fn clear_line(&self) -> io::Result<()> {
        self.push("\r\x1b[2K")
    }

    fn flush(&self) -> io::Result<()> {
        Ok(())
    }
}
