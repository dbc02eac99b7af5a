//! A pseudo-terminal, and the screen that a user sees on it.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};

use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

/// What happened on a terminal.
pub(crate) struct Session {
    pub(crate) code: i32,
    /// Every byte that was written to the terminal.
    pub(crate) output: String,
}

impl Session {
    /// The lines that stand on the screen at the end.
    pub(crate) fn screen(&self) -> Vec<String> {
        let mut screen = Screen { lines: vec![Vec::new()], row: 0, column: 0 };
        screen.feed(&self.output);
        let lines = screen.lines.iter().map(|line| line.iter().collect::<String>().trim_end().to_owned());
        let mut lines: Vec<String> = lines.collect();
        while lines.last().is_some_and(String::is_empty) {
            lines.pop();
        }
        lines
    }

    /// Every percentage that was drawn.
    pub(crate) fn percentages(&self) -> Vec<u64> {
        let before = |part: &str| {
            let digits: Vec<char> = part.chars().rev().take_while(char::is_ascii_digit).collect();
            digits.iter().rev().collect::<String>().parse().ok()
        };
        self.output.split('%').filter_map(before).collect()
    }
}

/// Runs a command with all its streams on a terminal of 100 columns.
pub(crate) fn run(command: Command, typed: &str) -> Session {
    run_with(command, |user| user.type_text(typed))
}

/// Who sits at a terminal.
pub(crate) struct User<'a> {
    controller: &'a mut File,
    /// What was read of the terminal.
    output: &'a mut Vec<u8>,
    /// The process of the command.
    process: u32,
}

impl User<'_> {
    pub(crate) fn type_text(&mut self, text: &str) {
        self.controller.write_all(text.as_bytes()).unwrap();
    }

    /// Reads until the terminal has shown `text`.
    pub(crate) fn wait_for(&mut self, text: &str) {
        let mut buffer = [0; 4096];
        while !String::from_utf8_lossy(self.output).contains(text) {
            let count = self.controller.read(&mut buffer).unwrap();
            self.output.extend_from_slice(&buffer[..count]);
        }
    }

    /// Sends the signal of Ctrl-C.
    pub(crate) fn interrupt(&self) {
        let status = Command::new("kill").args(["-INT", &self.process.to_string()]).status().unwrap();
        assert!(status.success());
    }
}

/// The same for somebody who waits between what is typed. A few kilobytes that are not read may be written meanwhile.
pub(crate) fn run_with(mut command: Command, use_it: impl FnOnce(&mut User<'_>)) -> Session {
    let (controller, terminal) = open();
    let stream = || Stdio::from(terminal.try_clone().unwrap());
    command.env("TERM", "xterm").stdin(stream()).stdout(stream()).stderr(stream());
    let mut child = command.spawn().unwrap();
    // the reads below end when nobody has the terminal open any more
    drop((command, terminal));
    let mut controller = File::from(controller);
    let mut output = Vec::new();
    use_it(&mut User { controller: &mut controller, output: &mut output, process: child.id() });
    let mut buffer = [0; 4096];
    while let Ok(count @ 1..) = controller.read(&mut buffer) {
        output.extend_from_slice(&buffer[..count]);
    }
    let code = child.wait().unwrap().code().unwrap_or(-1);
    Session { code, output: String::from_utf8(output).unwrap() }
}

fn open() -> (OwnedFd, OwnedFd) {
    let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    grantpt(&controller).unwrap();
    unlockpt(&controller).unwrap();
    let name = ptsname(&controller, Vec::new()).unwrap();
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let terminal = rustix::fs::open(name, flags, Mode::empty()).unwrap();
    tcsetwinsize(&terminal, Winsize { ws_row: 24, ws_col: 100, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
    (controller, terminal)
}

/// A screen without an end at the bottom.
struct Screen {
    lines: Vec<Vec<char>>,
    row: usize,
    column: usize,
}

impl Screen {
    fn feed(&mut self, output: &str) {
        let mut chars = output.chars();
        while let Some(c) = chars.next() {
            match c {
                '\r' => self.column = 0,
                '\n' => self.down(1),
                '\x1b' => {
                    let mut sequence = Vec::new();
                    // `[`, parameters, and a letter
                    while sequence.last().is_none_or(|c: &char| !c.is_ascii_alphabetic()) {
                        let Some(c) = chars.next() else { break };
                        sequence.push(c);
                    }
                    self.control(sequence.strip_prefix(&['[']).unwrap_or(&sequence));
                }
                c => self.put(c),
            }
        }
    }

    fn control(&mut self, sequence: &[char]) {
        let Some((command, number)) = sequence.split_last() else { return };
        let number = number.iter().collect::<String>().parse().unwrap_or(1);
        match command {
            'A' => self.row = self.row.saturating_sub(number),
            'B' => self.down(number),
            'K' => self.lines[self.row].clear(),
            'J' => self.lines.truncate(self.row + 1),
            _ => {}
        }
    }

    fn down(&mut self, count: usize) {
        self.row += count;
        self.lines.resize(self.lines.len().max(self.row + 1), Vec::new());
    }

    fn put(&mut self, c: char) {
        let line = &mut self.lines[self.row];
        line.resize(line.len().max(self.column + 1), ' ');
        line[self.column] = c;
        self.column += 1;
    }
}
