//! MLIR text without its locations, which say where an op was written and change nothing of what it does.

/// The text without `loc(…)` and without lines that define a location (`#loc1 = loc(…)`); bytecode as it is.
pub(super) fn without_locations(code: &[u8]) -> Vec<u8> {
    let mut rest = code;
    let mut kept = Vec::with_capacity(code.len());
    while !rest.is_empty() {
        let at_start_of_line = kept.last().is_none_or(|&last| last == b'\n');
        let in_a_word = kept.last().is_some_and(|&last| is_of_a_word(last));
        let length = match definition(rest) {
            Some(length) if at_start_of_line => length,
            _ if rest.starts_with(b"loc(") && !in_a_word => {
                // The space before a location belongs to it.
                kept.truncate(kept.trim_ascii_end().len());
                3 + parentheses(&rest[3..])
            }
            _ => {
                let length = plain(rest);
                kept.extend_from_slice(&rest[..length]);
                length
            }
        };
        rest = &rest[length..];
    }
    kept
}

/// The length of what can be kept without another look: a string literal, or what comes before the next byte that may
/// begin one or a location.
fn plain(text: &[u8]) -> usize {
    match text[0] {
        b'"' => string(text),
        _ => 1 + text[1..].iter().take_while(|byte| !matches!(byte, b'"' | b'l' | b'#')).count(),
    }
}

/// The length of the line, if it defines a location.
fn definition(text: &[u8]) -> Option<usize> {
    let number = text.strip_prefix(b"#loc")?;
    let digits = number.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let location = number[digits..].strip_prefix(b" = loc")?;
    location.starts_with(b"(").then_some(())?;
    let end = text.len() - location.len() + parentheses(location);
    Some(end + usize::from(text.get(end) == Some(&b'\n')))
}

fn is_of_a_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'$' | b'@' | b'%' | b'#')
}

/// The length of the string literal that the text begins with.
fn string(text: &[u8]) -> usize {
    let mut escaped = false;
    for (index, &byte) in text.iter().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return index + 1,
            _ => {}
        }
    }
    text.len()
}

/// The length of the parentheses that the text begins with, up to the one that closes the first.
fn parentheses(text: &[u8]) -> usize {
    let (mut index, mut depth) = (0, 0usize);
    while index < text.len() {
        match text[index] {
            b'"' => index += string(&text[index..]) - 1,
            b'(' => depth += 1,
            b')' if depth == 1 => return index + 1,
            b')' => depth -= 1,
            _ => {}
        }
        index += 1;
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        assert_eq!(String::from_utf8(without_locations(text.as_bytes())).unwrap(), expected);
    }

    #[test]
    fn locations_go_whatever_is_in_them() {
        check("%0 = op %x : tensor<f32> loc(#loc3)\n", "%0 = op %x : tensor<f32>\n");
        check("%0 = op loc(\"a)b\\\"(\"(\"f.py\":1:2))\nreturn", "%0 = op\nreturn");
        check("#loc = loc(unknown)\n#loc1 = loc(\"a\")\nmodule {}\n", "module {}\n");
        check(
            "func.func @main(%x: tensor<f32> loc(\"x\"), %y: tensor<f32>)",
            "func.func @main(%x: tensor<f32>, %y: tensor<f32>)",
        );
    }

    #[test]
    fn what_only_looks_like_one_stays() {
        for text in [
            "call @alloc(%x)",
            "call @loc(%x)",
            "#local = 3\n#loc = dense<1>\n",
            "%0 = \"text loc(1)\"\n",
            "\"a\\\" loc(2)",
            "",
            "\u{e9} \"open",
        ] {
            check(text, text);
        }
        check("a loc(never closed", "a");
        check("loc(", "");
    }
}
