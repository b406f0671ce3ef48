//! What the memory of a device holds in the course of the program, as a picture and in numbers.

use std::fmt::Write as _;

use shardwright_partition::Bytes;
use shardwright_partition::explain::{Explanation, MemoryClass, MemoryReport};

use super::markup::Column::{Number, Text};
use super::markup::{Cell, Table, escape};
use super::words::total;

const WIDTH: f64 = 1000.0;
const HEIGHT: f64 = 280.0;
const LEFT: f64 = 80.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 26.0;
/// Lines across the picture, at least, beside that at 0.
const TICKS: u64 = 3;

/// The picture and the numbers.
pub(super) fn memory(explanation: &Explanation) -> String {
    let report = &explanation.memory;
    let chart = if report.series.is_empty() { String::new() } else { chart(report, explanation.steps) };
    format!("{}{chart}{}<p class=\"small\">{}</p>\n", facts(report), at_peak(report), escape(&report.method))
}

/// The classes that are in use at some time, from the bottom of the picture to its top.
fn used(report: &MemoryReport) -> Vec<usize> {
    let is_used = |class: &usize| {
        report.series.iter().any(|point| point.bytes[*class] > 0)
            || report.at_peak.iter().any(|c| c.class == MemoryClass::ALL[*class] && c.bytes > 0)
    };
    (0..MemoryClass::ALL.len()).filter(is_used).collect()
}

fn chart(report: &MemoryReport, steps: u64) -> String {
    let most = report.series.iter().map(|point| total(point.bytes)).max().unwrap_or(0).max(1);
    let last = steps.saturating_sub(1).max(1) as f64;
    let x = |position: u64| LEFT + WIDTH * (position as f64 / last).min(1.0);
    let y = |bytes: u64| TOP + HEIGHT * (1.0 - bytes as f64 / most as f64);
    let mut drawing = String::new();
    // Powers of two are round numbers of bytes.
    let step = 1 << (most / TICKS).max(1).ilog2();
    for bytes in (0..=most).step_by(step) {
        let (line, right) = (y(bytes), LEFT + WIDTH);
        let _ = writeln!(
            drawing,
            "<path class=\"lane\" d=\"M{LEFT:.0} {line:.1}H{right:.0}\"/>\
             <text x=\"{:.0}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            LEFT - 8.0,
            line + 4.0,
            escape(Bytes(bytes)),
        );
    }
    let mut below = vec![0; report.series.len()];
    for class in used(report) {
        drawing += &area(report, class, &mut below, &x, &y);
    }
    let peak = x(report.peak_position);
    let bottom = TOP + HEIGHT;
    let anchor = if peak > LEFT + WIDTH * 0.9 { "end" } else { "start" };
    let _ = writeln!(
        drawing,
        "<path class=\"peak\" d=\"M{peak:.1} {TOP:.0}V{bottom:.0}\"/>\
         <text x=\"{peak:.1}\" y=\"{:.0}\" text-anchor=\"{anchor}\">most, at step {}</text>",
        bottom + 18.0,
        report.peak_position,
    );
    let label = format!(
        "memory of one device over {steps} steps of the program, by class; at most {} at step {}",
        Bytes(report.estimated_peak),
        report.peak_position
    );
    format!(
        "<figure>{}<div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-label=\"memory\">\
         <svg class=\"chart\" viewBox=\"0 0 {:.0} {:.0}\" role=\"img\" aria-label=\"{}\">\n{drawing}</svg></div></figure>\n",
        legend(report),
        LEFT + WIDTH + 4.0,
        TOP + HEIGHT + BOTTOM,
        escape(label),
    )
}

/// One class, on top of those before it, whose sums are in `below`.
fn area(
    report: &MemoryReport,
    class: usize,
    below: &mut [u64],
    x: &impl Fn(u64) -> f64,
    y: &impl Fn(u64) -> f64,
) -> String {
    let mut upper = String::new();
    let mut lower = Vec::new();
    for (point, below) in report.series.iter().zip(below) {
        let here = x(point.position);
        lower.push(format!("{here:.1} {:.1}", y(*below)));
        *below = below.saturating_add(point.bytes[class]);
        let _ = write!(upper, "{here:.1} {:.1}L", y(*below));
    }
    lower.reverse();
    format!(
        "<path class=\"m{class}\" d=\"M{upper}{}Z\"><title>{}</title></path>\n",
        lower.join("L"),
        escape(MemoryClass::ALL[class].name())
    )
}

fn legend(report: &MemoryReport) -> String {
    let entry = |class: usize| {
        let name = escape(MemoryClass::ALL[class].name());
        format!("<li><span class=\"key m{class}\"></span>{name}</li>")
    };
    let entries: String = used(report).into_iter().rev().map(entry).collect();
    format!("<ul class=\"legend\">{entries}</ul>")
}

fn facts(report: &MemoryReport) -> String {
    let mut facts = vec![("most at one time, worked out", Bytes(report.estimated_peak).to_string())];
    if let Some(compiler) = report.compiler {
        if let Some(peak) = compiler.peak {
            facts.push(("most at one time, by the compiler", Bytes(peak).to_string()));
        }
        facts.extend([
            ("arguments", Bytes(compiler.arguments).to_string()),
            ("outputs", Bytes(compiler.outputs).to_string()),
            ("outputs in the place of arguments", Bytes(compiler.aliased).to_string()),
            ("temporaries", Bytes(compiler.temporaries).to_string()),
        ]);
    }
    if let Some(ratio) = report.ratio {
        facts.push(("worked out ÷ by the compiler", format!("{ratio:.2}")));
    }
    let fact = |(name, value): (&str, String)| {
        format!("<div><dt>{}</dt><dd>{}</dd></div>", escape(name), escape(value))
    };
    format!("<dl>{}</dl>\n", facts.into_iter().map(fact).collect::<String>())
}

fn at_peak(report: &MemoryReport) -> String {
    let mut table = Table::new("In use where the most is", &[Text("class"), Number("bytes"), Number("part")]);
    for class in report.at_peak.iter().filter(|class| class.bytes > 0) {
        let part = 100.0 * class.bytes as f64 / report.estimated_peak.max(1) as f64;
        table.row([
            Cell::Text(class.class.name().to_owned()),
            super::bytes(class.bytes),
            Cell::Number { value: part, text: format!("{part:.1} %") },
        ]);
    }
    table.html()
}
