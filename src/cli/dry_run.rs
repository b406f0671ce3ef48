//! What `--dry_run` tells.

use shardwright_partition::Bytes;
use shardwright_train::{DryRun, DryRunStage, MemoryShare};

/// Memory, program and time as lines.
pub(super) fn text(found: &DryRun) -> String {
    let mut rows = vec![["memory".to_owned(), "in all".into(), "per device".into(), "padding".into()]];
    let bytes = |number: u64| Bytes(number).to_string();
    rows.extend(found.memory.iter().map(|share| {
        let MemoryShare { what, whole, per_device, padding } = share;
        [(*what).to_owned(), bytes(*whole), bytes(*per_device), bytes(*padding)]
    }));
    let known = [
        ("temporaries of the compiled step", found.temporary_bytes),
        ("the compiled step, with all of these", found.compiled_bytes),
        ("the initial state, as it was held", found.held_bytes),
    ];
    for (what, number) in known {
        let number = number.map_or("not told".into(), bytes);
        rows.push([what.to_owned(), String::new(), number, String::new()]);
    }
    let stages = found.stages.iter().map(|(stage, seconds)| format!("{} {seconds:.1} s", name(*stage)));
    format!(
        "{}\nprogram   {} ops, {} of text\ntime      {}\ndry run: nothing was trained or written",
        table(&rows),
        found.program_ops,
        Bytes(found.program_text_bytes as u64),
        stages.collect::<Vec<_>>().join(", ")
    )
}

fn name(stage: DryRunStage) -> &'static str {
    match stage {
        DryRunStage::Plan => "plan",
        DryRunStage::Compile => "compile",
        DryRunStage::State => "initial state",
        _ => "other",
    }
}

/// The first column to the left, the others to the right.
fn table(rows: &[[String; 4]]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let [first, second, third, fourth] = [0, 1, 2, 3].map(width);
    let line = |[what, whole, each, padding]: &[String; 4]| {
        let line = format!("{what:first$}  {whole:>second$}  {each:>third$}  {padding:>fourth$}");
        line.trim_end().to_owned()
    };
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn what_is_found_is_a_table_and_two_lines() {
        let share = |what, whole, per_device, padding| MemoryShare { what, whole, per_device, padding };
        let found = DryRun {
            stages: vec![(DryRunStage::Plan, 0.24), (DryRunStage::Compile, 12.0)],
            memory: vec![share("parameters", 8 << 20, 1 << 20, 0), share("batch", 512, 64, 16)],
            held_bytes: Some(3 << 20),
            temporary_bytes: None,
            compiled_bytes: Some(5 << 20),
            program_ops: 1234,
            program_text_bytes: 98_765,
        };
        expect![[r#"
            memory                                 in all  per device  padding
            parameters                            8.0 MiB     1.0 MiB      0 B
            batch                                   512 B        64 B     16 B
            temporaries of the compiled step                 not told
            the compiled step, with all of these              5.0 MiB
            the initial state, as it was held                 3.0 MiB
            program   1234 ops, 96.5 KiB of text
            time      plan 0.2 s, compile 12.0 s
            dry run: nothing was trained or written"#]]
        .assert_eq(&text(&found));
    }
}
