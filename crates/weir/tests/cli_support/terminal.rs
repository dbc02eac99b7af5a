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
pub(crate) fn run(mut command: Command, typed: &str) -> Session {
    let (controller, terminal) = open();
    let stream = || Stdio::from(terminal.try_clone().unwrap());
    command.env("TERM", "xterm").stdin(stream()).stdout(stream()).stderr(stream());
    let mut child = command.spawn().unwrap();
    // the reads below end when nobody has the terminal open any more
    drop((command, terminal));
    let mut controller = File::from(controller);
    controller.write_all(typed.as_bytes()).unwrap();
    let mut output = Vec::new();
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
