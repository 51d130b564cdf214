//! The console in a terminal.

use std::io;
use std::time::{Duration, Instant};

use ratatui::Frame;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Cell, Paragraph, Row, Table, TableState, Tabs, Wrap};

use crate::client::Client;
use crate::timeline::{CELL_NS, Share};
use crate::view::View;

/// How often everything is asked for again.
const PERIOD: Duration = Duration::from_millis(500);

const SCREENS: [&str; 5] = ["Workers", "Tasks", "Waits", "Lints", "Timeline"];
const HELP: &str = " 1-5 or Tab: screen   ↑↓: scroll   t: recorder off/sampled/full   q: quit ";

/// Shades of a share of time, from none to all of it.
const SHADES: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// What the user has chosen to see.
#[derive(Default)]
struct Screen {
    index: usize,
    table: TableState,
}

/// What a key asks for.
#[derive(Debug, PartialEq, Eq)]
enum Action {
    /// To show what is there: the user may have chosen another part of it.
    Draw,
    /// To ask for everything again.
    Refresh,
    Quit,
    NextTraceMode,
}

/// Shows a program until the user quits or the program ends.
pub(crate) fn run(program: &str) -> io::Result<()> {
    let mut client = Client::connect(program)?;
    let mut view = View::new(client.greeting.clone());
    view.refresh(&mut client)?;
    let mut terminal = ratatui::try_init()?;
    let mut screen = Screen::default();
    let mut next_refresh = Instant::now() + PERIOD;
    let ended = loop {
        if let Err(error) = terminal.draw(|frame| screen.draw(frame, &view)) {
            break Err(error);
        }
        match next_action(&mut screen, next_refresh) {
            // At once: an answer may take long.
            Ok(Action::Draw) => continue,
            Ok(Action::Refresh) => {}
            Ok(Action::Quit) => break Ok(()),
            Ok(Action::NextTraceMode) => {
                let mode = next_mode(&view.stats.trace);
                if let Err(error) = client.ask(&format!("set_trace {mode}")) {
                    break Err(error);
                }
            }
            Err(error) => break Err(error),
        }
        if let Err(error) = view.refresh(&mut client) {
            break Err(error);
        }
        next_refresh = Instant::now() + PERIOD;
    };
    ratatui::restore();
    ended
}

/// Waits for a key that changes something, or until it is time to refresh.
fn next_action(screen: &mut Screen, next_refresh: Instant) -> io::Result<Action> {
    loop {
        let left = next_refresh.saturating_duration_since(Instant::now());
        if left.is_zero() || !event::poll(left)? {
            return Ok(Action::Refresh);
        }
        match event::read()? {
            Event::Key(key) if key.kind == KeyEventKind::Press => {
                let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
                return Ok(screen.press(key.code, is_control));
            }
            Event::Resize(..) => return Ok(Action::Draw),
            _ => {}
        }
    }
}

fn next_mode(mode: &str) -> &'static str {
    match mode {
        "off" => "sampled",
        "sampled" => "full",
        _ => "off",
    }
}

impl Screen {
    fn press(&mut self, key: KeyCode, is_control: bool) -> Action {
        match key {
            KeyCode::Char('q') | KeyCode::Esc => return Action::Quit,
            KeyCode::Char('c') if is_control => return Action::Quit,
            KeyCode::Char('t') => return Action::NextTraceMode,
            KeyCode::Char(digit @ '1'..='5') => self.show(digit as usize - '1' as usize),
            KeyCode::Tab | KeyCode::Right => self.show((self.index + 1) % SCREENS.len()),
            KeyCode::BackTab | KeyCode::Left => {
                self.show((self.index + SCREENS.len() - 1) % SCREENS.len());
            }
            KeyCode::Down => self.table.select_next(),
            KeyCode::Up => self.table.select_previous(),
            KeyCode::PageDown => self.table.scroll_down_by(10),
            KeyCode::PageUp => self.table.scroll_up_by(10),
            KeyCode::Home => self.table.select_first(),
            KeyCode::End => self.table.select_last(),
            _ => {}
        }
        Action::Draw
    }

    fn show(&mut self, index: usize) {
        *self = Self {
            index,
            ..Self::default()
        };
    }

    fn draw(&mut self, frame: &mut Frame<'_>, view: &View) {
        let areas = Layout::vertical([
            Constraint::Length(2),
            Constraint::Length(1),
            Constraint::Min(0),
            Constraint::Length(1),
        ]);
        let [head, tabs, body, foot] = areas.areas(frame.area());
        let title = Span::styled(view.title(), Modifier::BOLD);
        let head_lines = vec![Line::from(title), Line::from(view.summary())];
        frame.render_widget(Paragraph::new(head_lines), head);
        let names = SCREENS.iter().enumerate();
        let names = names.map(|(index, name)| format!("{} {name}", index + 1));
        frame.render_widget(Tabs::new(names).select(self.index), tabs);
        match self.index {
            0 => self.draw_workers(frame, body, view),
            1 => self.draw_tasks(frame, body, view),
            2 => self.draw_waits(frame, body, view),
            3 => self.draw_lints(frame, body, view),
            _ => draw_timeline(frame, body, view),
        }
        let dim = Style::new().add_modifier(Modifier::DIM);
        frame.render_widget(Paragraph::new(HELP).style(dim), foot);
    }

    fn draw_workers(&mut self, frame: &mut Frame<'_>, area: Rect, view: &View) {
        let rows = view.workers().into_iter().enumerate().map(|(index, row)| {
            vec![
                index.to_string(),
                row.state,
                format!("{:.1}", row.busy_percent),
                format!("{:.0}", row.polls_per_second),
                format!("{:.1}", row.average_poll_us),
                format!("{:.1}", row.max_poll_ms),
                row.queue_depth.to_string(),
                format!("{:.0}", row.stolen_per_second),
                format!("{:.0}", row.parks_per_second),
                row.task,
            ]
        });
        let columns = [
            ("worker", 6),
            ("state", 8),
            ("busy %", 6),
            ("polls/s", 9),
            ("avg µs", 8),
            ("max ms", 8),
            ("queue", 5),
            ("stolen/s", 8),
            ("parks/s", 8),
            ("polls task", 0),
        ];
        self.draw_table(frame, area, &columns, rows);
    }

    fn draw_tasks(&mut self, frame: &mut Frame<'_>, area: Rect, view: &View) {
        let rows = view.tasks.iter().map(|task| {
            vec![
                task.id.to_string(),
                task.status.clone(),
                task.name.clone().unwrap_or_default(),
                task.wait
                    .as_ref()
                    .map(ToString::to_string)
                    .unwrap_or_default(),
                task.size.to_string(),
                task.spawned_at.clone(),
            ]
        });
        let columns = [
            ("id", 8),
            ("state", 9),
            ("name", 20),
            ("waits for", 44),
            ("bytes", 7),
            ("spawned at", 0),
        ];
        self.draw_table(frame, area, &columns, rows);
    }

    fn draw_waits(&mut self, frame: &mut Frame<'_>, area: Rect, view: &View) {
        let rows = view.waits().into_iter().map(|row| {
            let longest = row.longest_seconds.map(|seconds| format!("{seconds} s"));
            vec![
                row.tasks.to_string(),
                longest.unwrap_or_default(),
                row.thing,
                row.example,
            ]
        });
        let columns = [
            ("tasks", 7),
            ("longest", 8),
            ("wait for", 44),
            ("for example", 0),
        ];
        self.draw_table(frame, area, &columns, rows);
    }

    fn draw_lints(&mut self, frame: &mut Frame<'_>, area: Rect, view: &View) {
        if view.lints.is_empty() {
            let text = "No lints so far: slow polls, lost wakers, self-wakes, large futures, …";
            frame.render_widget(Paragraph::new(text).block(Block::bordered()), area);
            return;
        }
        // The newest first, each as a paragraph: they are long.
        let lines = view.lints.iter().rev().map(|lint| {
            let age = Span::styled(format!("{:>5} s ago  ", lint.age_seconds), Modifier::DIM);
            Line::from(vec![age, Span::raw(lint.text.clone())])
        });
        let lines: Vec<_> = lines.skip(self.table.selected().unwrap_or(0)).collect();
        let lints = Paragraph::new(lines).wrap(Wrap { trim: false });
        frame.render_widget(lints.block(Block::bordered()), area);
    }

    /// A table whose last column takes the room that is left.
    fn draw_table(
        &mut self,
        frame: &mut Frame<'_>,
        area: Rect,
        columns: &[(&str, u16)],
        rows: impl Iterator<Item = Vec<String>>,
    ) {
        let widths = columns.iter().map(|&(_, width)| match width {
            0 => Constraint::Min(10),
            width => Constraint::Length(width),
        });
        let header = Row::new(columns.iter().map(|&(name, _)| Cell::from(name)));
        let rows = rows.map(|cells| Row::new(cells.into_iter().map(Cell::from)));
        let table = Table::new(rows, widths)
            .header(header.style(Modifier::BOLD))
            .row_highlight_style(Modifier::REVERSED)
            .block(Block::bordered());
        frame.render_stateful_widget(table, area, &mut self.table);
    }
}

fn draw_timeline(frame: &mut Frame<'_>, area: Rect, view: &View) {
    let mut lines = Vec::new();
    let room = usize::from(area.width).saturating_sub(13);
    for (name, shares) in view.timeline.rows() {
        let latest = &shares[shares.len().saturating_sub(room)..];
        let cells: String = latest.iter().map(|&share| shade(share)).collect();
        lines.push(Line::from(vec![
            Span::raw(format!("{name:<10} ")),
            Span::styled(cells, Color::Cyan),
        ]));
    }
    if lines.is_empty() {
        lines.push(Line::from(
            "Nothing is recorded. Press t to switch the recorder on.",
        ));
    } else {
        let cell_ms = CELL_NS / 1_000_000;
        lines.push(Line::from(format!(
            "{:11}{cell_ms} ms for each column, now is on the right; ?: not recorded",
            ""
        )));
        lines.push(Line::default());
        for (task, percent) in view.busiest() {
            lines.push(Line::from(format!("{percent:>9.1} % task {task}")));
        }
    }
    frame.render_widget(Paragraph::new(lines).block(Block::bordered()), area);
}

fn shade(share: Share) -> char {
    match share {
        Share::Unknown => '?',
        // A little is not nothing.
        Share::Busy(percent) => SHADES[usize::from(percent.min(100)).div_ceil(100 / 8).min(8)],
    }
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::*;
    use crate::view::sample;

    /// What a screen looks like.
    fn text(screen: &mut Screen, view: &View, width: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, 14)).unwrap();
        terminal.draw(|frame| screen.draw(frame, view)).unwrap();
        let buffer = terminal.backend().buffer();
        let rows = buffer.content().chunks(usize::from(width));
        let line = |row: &[ratatui::buffer::Cell]| row.iter().map(|cell| cell.symbol()).collect();
        rows.map(line).collect::<Vec<String>>().join("\n")
    }

    #[test]
    fn each_screen_shows_what_it_is_for() {
        let (mut screen, view) = (Screen::default(), sample());
        let expected = [
            ('1', ["running  50.0", "4 src/main.rs:10:5"]),
            ('2', ["mutex 0x10 for 7 s", "src/main.rs:8:5"]),
            ('3', ["2       9 s      mutex 0x10", "2 reader"]),
            ('4', ["5 s ago", "lost waker: a task"]),
            ('5', ["worker 0   ██████████", "task 4 src/main.rs:10:5"]),
        ];
        for (key, parts) in expected {
            assert_eq!(screen.press(KeyCode::Char(key), false), Action::Draw);
            let text = text(&mut screen, &view, 120);
            assert!(text.contains("server (4711)"), "{text}");
            for part in parts {
                assert!(text.contains(part), "{part:?} is missing in\n{text}");
            }
        }
    }

    #[test]
    fn narrow_and_empty_screens_are_drawn_too() {
        for view in [sample(), View::default()] {
            for width in [1, 20, 40] {
                let mut screen = Screen::default();
                for _ in SCREENS {
                    text(&mut screen, &view, width);
                    screen.press(KeyCode::Tab, false);
                }
            }
        }
        let mut screen = Screen::default();
        screen.press(KeyCode::BackTab, false);
        let text = text(&mut screen, &View::default(), 80);
        assert!(text.contains("Nothing is recorded"), "{text}");
    }

    #[test]
    fn keys_scroll_switch_the_recorder_and_quit() {
        let (mut screen, view) = (Screen::default(), sample());
        screen.press(KeyCode::Char('2'), false);
        screen.press(KeyCode::Down, false);
        screen.press(KeyCode::Down, false);
        text(&mut screen, &view, 80);
        assert_eq!(screen.table.selected(), Some(1));
        screen.press(KeyCode::End, false);
        text(&mut screen, &view, 80);
        assert_eq!(screen.table.selected(), Some(2), "the last of three tasks");
        assert_eq!(
            screen.press(KeyCode::Char('t'), false),
            Action::NextTraceMode
        );
        assert_eq!(screen.press(KeyCode::Char('c'), false), Action::Draw);
        assert_eq!(screen.press(KeyCode::Char('c'), true), Action::Quit);
        assert_eq!(screen.press(KeyCode::Char('q'), false), Action::Quit);
        assert_eq!(
            ["off", "sampled", "full"].map(next_mode),
            ["sampled", "full", "off"]
        );
    }

    #[test]
    fn shades_grow_with_the_share() {
        let shades = [0, 1, 50, 99, 100].map(|percent| shade(Share::Busy(percent)));
        assert_eq!(shades, [' ', '▁', '▅', '█', '█']);
    }
}
