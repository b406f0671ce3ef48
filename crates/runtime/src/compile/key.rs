//! What an entry of the cache depends on, part by part.

use std::env;

use memchr::memmem;
use sha2::{Digest, Sha256};
use shardwright_pjrt::{Client, CompileOptions, ProgramFormat};

use super::locations::without_locations;
use crate::flags::EnvironmentFlags;
use crate::plugins::Sha256Digest;

/// Changes whenever the meaning of entries does.
const CONTAINER: &str = "2";

/// A program as the compiler gets it.
#[derive(Clone, Copy)]
pub(crate) struct Source<'a> {
    /// What messages call it.
    pub(crate) name: &'a str,
    pub(crate) code: &'a [u8],
    pub(crate) format: ProgramFormat,
}

impl Source<'_> {
    /// A digest of the types that it takes and gives, so that programs of one name are told apart: those on the line
    /// of the main function. All programs that are no MLIR text have the same.
    pub(super) fn signature(&self) -> String {
        let main =
            self.code.split(|&byte| byte == b'\n').find(|line| memmem::find(line, b"@main(").is_some());
        let main = String::from_utf8_lossy(main.unwrap_or_default());
        let types = main.match_indices("tensor<").map(|(at, _)| main[at..].split('>').next());
        hex_digest(types.flatten().collect::<Vec<_>>().join(" ").as_bytes())
    }
}

/// Everything that a compiled program depends on, and the digest of it all.
///
/// The parts are kept beside the executable, so that a miss can say which of them is another than before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CacheKey {
    pub(crate) parts: Vec<Part>,
    pub(crate) digest: Sha256Digest,
}

/// A name for people and a value, in full or as a digest.
pub(crate) type Part = (String, String);

impl CacheKey {
    /// `surroundings` are those of the client, see [`surroundings`].
    pub(crate) fn new(source: &Source<'_>, options: &CompileOptions, surroundings: &[Part]) -> CacheKey {
        let program = match source.format {
            ProgramFormat::Mlir => hex_digest(&without_locations(source.code)),
            _ => hex_digest(source.code),
        };
        let options = serde_json::to_string(options).unwrap_or_else(|_| format!("{options:?}"));
        let own = [
            ("program", program),
            ("program format", source.format.name().to_owned()),
            ("compile options", options),
        ];
        let own = own.map(|(name, value)| (name.to_owned(), value));
        CacheKey::of_parts(own.into_iter().chain(surroundings.iter().cloned()).collect())
    }

    pub(crate) fn of_parts(parts: Vec<Part>) -> CacheKey {
        let mut hasher = Sha256::new();
        for text in parts.iter().flat_map(|(name, value)| [name, value]) {
            // With its length, so that no two lists of parts look alike.
            hasher.update((text.len() as u64).to_le_bytes());
            hasher.update(text);
        }
        CacheKey { parts, digest: Sha256Digest::from_bytes(hasher.finalize().into()) }
    }
}

/// The parts of a key that are the same for all programs of a client.
pub(super) fn surroundings(client: &Client, plugin: &Sha256Digest, flags: &EnvironmentFlags) -> Vec<Part> {
    let (major, minor) = client.plugin().api_version();
    let devices: Vec<String> =
        client.devices().iter().map(|device| format!("{} {}", device.id(), device.kind())).collect();
    let parts = [
        ("container", CONTAINER.to_owned()),
        ("plugin", plugin.to_string()),
        ("plugin version", format!("PJRT {major}.{minor}, {}", client.platform_version())),
        ("platform", client.platform_name().to_owned()),
        ("devices", devices.join(", ")),
        ("processor", processor(client.platform_name())),
        ("compiler flags of the environment", flags.to_string()),
    ];
    parts.map(|(name, value)| (name.to_owned(), value)).into()
}

/// Why what the compiler does is wanted and not only its result, so that no cache may stand in for it.
pub(super) fn wants_dumps(options: &CompileOptions, flags: &EnvironmentFlags) -> bool {
    let overrides = options.env_option_overrides.iter().map(|(name, _)| name.as_str());
    overrides.chain(flags.names()).any(|name| name.starts_with("xla_dump"))
}

/// What of this machine goes into native code: on CPUs the compiler uses all that the processor has, and cuts loops
/// for as many threads as there are.
fn processor(platform: &str) -> String {
    if platform != "cpu" {
        return String::new();
    }
    let threads = std::thread::available_parallelism().map_or(0, usize::from);
    let described = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    // All cores of a machine are taken to be alike.
    let mut features: Vec<&str> = described
        .lines()
        .find(|line| line.starts_with("flags") || line.starts_with("Features"))
        .and_then(|line| line.split_once(':'))
        .map(|(_, list)| list.split_whitespace().collect())
        .unwrap_or_default();
    features.sort_unstable();
    let model = described.lines().find(|line| line.starts_with("model name")).unwrap_or_default();
    let digest = hex_digest(format!("{model}\n{}", features.join(" ")).as_bytes());
    format!("{} {}, {threads} threads, features {}", env::consts::OS, env::consts::ARCH, &digest[..16])
}

fn hex_digest(bytes: &[u8]) -> String {
    Sha256Digest::from_bytes(Sha256::digest(bytes).into()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(code: &str, options: &CompileOptions, plugin: &str) -> CacheKey {
        let source = Source { name: "m", code: code.as_bytes(), format: ProgramFormat::Mlir };
        CacheKey::new(&source, options, &[("plugin".to_owned(), plugin.to_owned())])
    }

    #[test]
    fn each_part_changes_the_digest_and_locations_do_not() {
        let options = CompileOptions::default();
        let two = CompileOptions { num_partitions: 2, ..CompileOptions::default() };
        let base = key("func.func @main() loc(\"a\")", &options, "p");
        assert_eq!(base, key("func.func @main() loc(\"b\")", &options, "p"));
        for other in [
            key("func.func @main2() loc(\"a\")", &options, "p"),
            key("func.func @main() loc(\"a\")", &two, "p"),
            key("func.func @main() loc(\"a\")", &options, "q"),
        ] {
            let changed = base.parts.iter().zip(&other.parts).filter(|(a, b)| a != b).count();
            assert_eq!(changed, 1);
            assert_ne!(base.digest, other.digest);
        }
    }

    #[test]
    fn where_one_part_ends_and_the_next_begins_counts() {
        let parts = |parts: &[(&str, &str)]| {
            CacheKey::of_parts(parts.iter().map(|&(a, b)| (a.to_owned(), b.to_owned())).collect()).digest
        };
        assert_ne!(parts(&[("a", "bc")]), parts(&[("ab", "c")]));
        assert_ne!(parts(&[("a", "b"), ("c", "d")]), parts(&[("a", "bcd")]));
    }

    #[test]
    fn dumps_are_noticed() {
        use shardwright_pjrt::OptionValue;
        let (plain, none) = (CompileOptions::default(), EnvironmentFlags::default());
        let dump = vec![("xla_dump_to".to_owned(), OptionValue::String("d".into()))];
        let dumps = CompileOptions { env_option_overrides: dump, ..CompileOptions::default() };
        assert!(!wants_dumps(&plain, &none));
        assert!(wants_dumps(&dumps, &none));
    }

    #[test]
    fn a_signature_is_the_types_of_the_main_function() {
        let signature =
            |code: &str| Source { name: "m", code: code.as_bytes(), format: ProgramFormat::Mlir }.signature();
        let one = signature(
            "module @m {\n  func.func @main(%x: tensor<2xf32>) -> tensor<4xi8> {\n    %y = a\n  }\n}",
        );
        let two = signature(
            "module @m {\n  func.func @main(%a: tensor<2xf32> loc(\"w\")) -> (tensor<4xi8>) {\n}\n}",
        );
        assert_eq!(one, two);
        assert_ne!(one, signature("func.func @main(%x: tensor<3xf32>) -> tensor<4xi8> {"));
        assert_eq!(signature("ML\u{1}R"), signature(""));
    }
}
