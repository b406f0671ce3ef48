//! The collectives of a program as a picture: one lane for each mesh axis, in the order of the program, as wide as what
//! is sent.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use shardwright_hlo::compiled::CollectiveKind;
use shardwright_partition::Bytes;
use shardwright_partition::explain::{ExplainedCollective, Explanation};

use super::markup::escape;
use super::words::{axes, cause, kind_class, runs, sent, total};

const WIDTH: f64 = 1000.0;
const LABELS: f64 = 110.0;
const LANE: f64 = 34.0;
const GAP: f64 = 8.0;
/// What is narrower goes into one box with its neighbours of the same lane and kind.
const NARROWEST: f64 = 1.0;

/// Collectives that are drawn as one box.
struct Span<'a> {
    start: f64,
    width: f64,
    kind: CollectiveKind,
    collectives: Vec<&'a ExplainedCollective>,
}

/// The picture, with its legend and its explanation in words; a sentence where there is nothing to draw.
pub(super) fn timeline(explanation: &Explanation) -> String {
    if explanation.collectives.is_empty() {
        return "<p>The program has no collectives: no data moves between devices.</p>\n".to_owned();
    }
    let lanes = lanes(explanation);
    let height = lanes.len() as f64 * (LANE + GAP);
    let mut drawing = String::new();
    for (row, (name, spans)) in lanes.iter().enumerate() {
        let y = row as f64 * (LANE + GAP);
        let (middle, right) = (y + LANE / 2.0 + 4.0, LABELS + WIDTH);
        let _ = writeln!(
            drawing,
            "<text x=\"{:.0}\" y=\"{middle:.0}\" text-anchor=\"end\">{}</text>\
             <path class=\"lane\" d=\"M{LABELS:.0} {bottom:.0}H{right:.0}\"/>",
            LABELS - 10.0,
            escape(shortened(name)),
            bottom = y + LANE,
        );
        spans.iter().for_each(|span| drawing += &span.svg(y));
    }
    let all = total(explanation.collectives.iter().map(sent));
    let label = format!(
        "{} collectives of the program in its order, by the mesh axes that they run over; each device sends {} in one run",
        explanation.collectives.len(),
        Bytes(all)
    );
    format!(
        "<figure>{}<div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-label=\"timeline\">\
         <svg class=\"chart\" viewBox=\"0 0 {:.0} {height:.0}\" role=\"img\" aria-label=\"{label}\">\n{drawing}</svg></div>\
         <figcaption>In the order of the program, from left to right. The width of a box is what each device sends for \
         it, {} in all; a box names what it carries when pointed at, and the tables below list the same.</figcaption>\
         </figure>\n",
        legend(explanation),
        LABELS + WIDTH + 2.0,
        Bytes(all),
        label = escape(label),
    )
}

/// The boxes of each lane. Collectives lie end to end, whatever their lanes.
fn lanes(explanation: &Explanation) -> BTreeMap<String, Vec<Span<'_>>> {
    let collectives = &explanation.collectives;
    let all = total(collectives.iter().map(sent));
    let width = |c: &ExplainedCollective| match all {
        0 => WIDTH / collectives.len() as f64,
        _ => WIDTH * sent(c) as f64 / all as f64,
    };
    let mut lanes: BTreeMap<String, Vec<Span<'_>>> = BTreeMap::new();
    let mut start = LABELS;
    for collective in collectives {
        let width = width(collective);
        let lane = lanes.entry(axes(collective.axes.as_deref())).or_default();
        match lane.iter_mut().rev().find(|span| span.kind == collective.kind) {
            Some(open) if open.width < NARROWEST && start - open.start < 2.0 * NARROWEST => {
                open.width = start + width - open.start;
                open.collectives.push(collective);
            }
            _ => lane.push(Span { start, width, kind: collective.kind, collectives: vec![collective] }),
        }
        start += width;
    }
    lanes
}

impl Span<'_> {
    fn svg(&self, y: f64) -> String {
        format!(
            "<rect class=\"{}\" x=\"{:.2}\" y=\"{y:.0}\" width=\"{:.2}\" height=\"{LANE:.0}\"><title>{}</title></rect>\n",
            kind_class(self.kind),
            self.start,
            self.width.max(NARROWEST / 2.0),
            escape(self.title()),
        )
    }

    fn title(&self) -> String {
        let sent = Bytes(total(self.collectives.iter().copied().map(sent)));
        match &self.collectives[..] {
            [one] => {
                let whole = Bytes(one.array_bytes);
                let pass = one.pieces.first().and_then(|piece| piece.pass);
                let pass = pass.map(|pass| format!(", {pass}")).unwrap_or_default();
                format!(
                    "{} {}\n{}{pass}\n{whole}, sends {sent}",
                    runs(one.runs),
                    one.kind,
                    cause(&one.pieces)
                )
            }
            several => {
                let (count, kind) = (several.len(), self.kind);
                let first = cause(&several[0].pieces);
                format!("{count} {kind} in a row, sending {sent}\nfirst: {first}")
            }
        }
    }
}

fn legend(explanation: &Explanation) -> String {
    let has = |kind: &CollectiveKind| explanation.collectives.iter().any(|c| c.kind == *kind);
    let entry = |kind: CollectiveKind| {
        format!("<li><span class=\"key {}\"></span>{}</li>", kind_class(kind), escape(kind))
    };
    let entries: String = CollectiveKind::ALL.into_iter().filter(has).map(entry).collect();
    format!("<ul class=\"legend\">{entries}</ul>")
}

fn shortened(name: &str) -> String {
    const MOST: usize = 14;
    match name.char_indices().nth(MOST) {
        Some((place, _)) => format!("{}…", &name[..place]),
        None => name.to_owned(),
    }
}
