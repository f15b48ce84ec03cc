//! A terminal to type at, and the pty inside.

use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};

use super::*;

const FLAGS: OpenptFlags = OpenptFlags::RDWR
    .union(OpenptFlags::NOCTTY)
    .union(OpenptFlags::CLOEXEC);

fn pty() -> (OwnedFd, OwnedFd) {
    let controller = openpt(FLAGS).unwrap();
    grantpt(&controller).unwrap();
    unlockpt(&controller).unwrap();
    let near = ioctl_tiocgptpeer(&controller, FLAGS).unwrap();
    (controller, near)
}

/// Who types, the terminal, the keyboard at it and the program's end.
fn keyboard(alone: bool) -> (OwnedFd, OwnedFd, Keyboard, OwnedFd) {
    let (person, terminal) = pty();
    let (controller, near) = pty();
    let keyboard = Keyboard::new(terminal.as_fd(), Arc::new(controller), alone, true).unwrap();
    (person, terminal, keyboard, near)
}

fn answered(terminal: &OwnedFd) -> u64 {
    rustix::io::ioctl_fionread(terminal).unwrap()
}

fn ordinary(terminal: &OwnedFd) -> bool {
    is_ordinary(&tcgetattr(terminal).unwrap())
}

#[test]
fn what_a_terminal_answers_late_is_not_left_for_the_shell() {
    for alone in [true, false] {
        let (person, terminal, keyboard, _near) = keyboard(alone);
        keyboard.take().unwrap();
        assert_eq!(ordinary(&terminal), !alone);
        keyboard.questions.store(true, Ordering::Relaxed);
        copy::write_all(person.as_fd(), b"\x1b[?62;c\n").unwrap();
        // The kernel carries it over by itself.
        while answered(&terminal) == 0 {
            std::thread::yield_now();
        }
        keyboard.give_back(Until::Ever);
        assert_eq!(answered(&terminal), 0);
        assert!(ordinary(&terminal));
        // Nobody who types afterwards loses anything.
        copy::write_all(person.as_fd(), b"ls\n").unwrap();
        let mut line = [0; 16];
        assert_eq!(read(&terminal, &mut line).unwrap(), 3);
        assert_eq!(&line[..3], b"ls\n");
    }
}

#[test]
fn a_program_that_wants_keys_has_the_terminal_while_nobody_else_has() {
    let (_person, terminal, keyboard, near) = keyboard(false);
    keyboard.take().unwrap();
    let change = |of: &OwnedFd, modes: &Termios| {
        tcsetattr(of, OptionalActions::Now, modes).unwrap();
        keyboard.settle(&mut keyboard.state.lock()).unwrap();
    };
    let before = tcgetattr(&near).unwrap();
    let mut silent = before.clone();
    silent.local_modes.remove(LocalModes::ECHO);
    change(&near, &silent);
    assert!(!ordinary(&terminal));
    change(&near, &before);
    assert!(ordinary(&terminal));
    // A pager, say, has it.
    let mut pager = tcgetattr(&terminal).unwrap();
    pager.local_modes.remove(LocalModes::ICANON);
    change(&terminal, &pager);
    change(&near, &silent);
    let shown = tcgetattr(&terminal).unwrap();
    assert!(shown.local_modes.contains(LocalModes::ECHO));
    assert!(keyboard.state.lock().held.is_none());
    // It came after the program, and keeps what it has when that ends.
    change(&terminal, &before);
    assert!(keyboard.state.lock().held.is_some());
    change(&terminal, &pager);
    keyboard.give_back(Until::Ever);
    let shown = tcgetattr(&terminal).unwrap();
    assert!(!shown.local_modes.contains(LocalModes::ICANON));
}

#[test]
fn what_was_written_is_shown_before_a_stop() {
    let (person, terminal, keyboard, near) = keyboard(true);
    let keyboard = Arc::new(keyboard);
    let (from, showing) = (Arc::clone(&keyboard.controller), Arc::clone(&keyboard));
    std::thread::spawn(move || showing.show(from.as_fd(), terminal.as_fd()));
    let mut shown = [0; 16];
    for _ in 0..200 {
        copy::write_all(near.as_fd(), b"bye").unwrap();
        keyboard.catch_up();
        // The kernel carries over by itself what is on the terminal.
        let is_there = is_readable(person.as_fd(), Some(Duration::ZERO)).unwrap();
        assert!(is_there);
        assert_eq!(read(&person, &mut shown).unwrap(), 3);
    }
}

#[test]
fn what_is_over_takes_no_terminal() {
    let (_person, terminal, keyboard, _near) = keyboard(true);
    keyboard.give_back(Until::Ever);
    keyboard.take().unwrap();
    assert!(ordinary(&terminal) && !keyboard.is_to_be_had());
}
