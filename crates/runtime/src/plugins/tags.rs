//! What the name of a wheel says of where it can be installed.

/// The tags at the end of the name: what pip matches with the Python that it installs for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct WheelTags<'a> {
    /// Such as `py3` or `cp311`.
    pub(super) python: &'a str,
    /// Such as `none` or `cp311`.
    pub(super) abi: &'a str,
    /// Such as `manylinux_2_27_x86_64`.
    pub(super) platform: &'a str,
}

impl<'a> WheelTags<'a> {
    pub(super) fn of(wheel: &'a str) -> Option<Self> {
        let mut parts = wheel.strip_suffix(".whl")?.rsplit('-');
        let (platform, abi, python) = (parts.next()?, parts.next()?, parts.next()?);
        (parts.count() >= 2 && python.len() > 2 && python.is_ascii()).then_some(Self {
            python,
            abi,
            platform,
        })
    }

    /// The implementation and the version of Python, as pip's flags want them: `cp` and `3.11` of `cp311`.
    pub(super) fn implementation_and_version(&self) -> (&'a str, String) {
        let (implementation, digits) = self.python.split_at(2);
        let (major, minor) = digits.split_at(1);
        (implementation, if minor.is_empty() { major.to_owned() } else { format!("{major}.{minor}") })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_of_a_wheel_are_what_pip_wants() {
        let check = |wheel: &str, expect: &str| {
            let text = WheelTags::of(wheel).map(|tags| {
                let (implementation, version) = tags.implementation_and_version();
                format!("{implementation} {version} {} {}", tags.abi, tags.platform)
            });
            assert_eq!(text.unwrap_or_default(), expect, "{wheel}");
        };
        check("libtpu-0.0.52-cp311-cp311-manylinux_2_31_x86_64.whl", "cp 3.11 cp311 manylinux_2_31_x86_64");
        check("a-1-py3-none-any.whl", "py 3 none any");
        // With a build number.
        check("a-1-2-py3-none-any.whl", "py 3 none any");
        check("py3-none-any.whl", "");
        check("a-1-p-none-any.whl", "");
        check("a-1-py3-none-any.zip", "");
    }
}
