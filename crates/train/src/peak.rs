//! What devices could do at most.

/// Floating-point operations in a second, in bf16, of a device that calls itself so; `None` where that is not known.
///
/// The figures are those that the vendor publishes per chip. Up to the third generation, a device is one of a chip's two
/// cores.
pub(crate) fn peak_flops(device_kind: &str) -> Option<f64> {
    const PEAKS: [(&str, f64); 9] = [
        ("TPU v2", 46e12 / 2.0),
        ("TPU v3", 123e12 / 2.0),
        ("TPU v4", 275e12),
        ("TPU v5 lite", 197e12),
        ("TPU v5e", 197e12),
        ("TPU v5", 459e12),
        ("TPU v5p", 459e12),
        ("TPU v6 lite", 918e12),
        ("TPU v6e", 918e12),
    ];
    PEAKS.iter().find(|(kind, _)| *kind == device_kind).map(|(_, peak)| *peak)
}
