//! How much there may be of everything.

use super::{Resolver, SettingKey, fixed, parse};
use crate::config::LimitsConfig;

impl Resolver<'_> {
    pub(super) fn limits(&mut self) -> LimitsConfig {
        let blob_size = self.size(SettingKey::LimitBlobSize);
        LimitsConfig {
            body: self.size(SettingKey::LimitBody),
            bodies: self.size(SettingKey::LimitBodies),
            headers: fixed::REQUEST_HEADERS,
            header_bytes: self.size(SettingKey::LimitHeaderBytes),
            turns: self.count(SettingKey::LimitTurns),
            turns_per_key: self.count(SettingKey::LimitTurnsPerKey),
            reserve: self.value(SettingKey::LimitReserve, parse::count).unwrap_or_default(),
            queue: self.value(SettingKey::LimitQueue, parse::count).unwrap_or_default(),
            connections: self.count(SettingKey::LimitConnections),
            upstream_connections: self.count(SettingKey::LimitUpstream),
            upstream_streams: fixed::UPSTREAM_STREAMS,
            tool_result: self.tool_result(blob_size / 2),
            blobs: self.count(SettingKey::LimitBlobs),
            blob_size,
            blob_bytes: self.size(SettingKey::LimitBlobBytes),
        }
    }

    /// A result is kept as a blob, in which it may be twice as large: a larger one would fail
    /// there. The default follows a smaller blob.
    fn tool_result(&mut self, most: usize) -> usize {
        let key = SettingKey::LimitToolResult;
        let size = self.size(key);
        if size <= most {
            return size;
        }
        if let Some(found) = self.raw.get(key).cloned() {
            let text = "must be at most half of `limits.blob_size`: raise both together";
            self.problem(key, &found.origin, text);
        }
        most
    }
}

#[cfg(test)]
mod tests {
    use crate::config::{RawConfig, resolve};

    /// A result of half a blob may fill all of it once it is stored as JSON.
    #[test]
    fn largest_tool_result_fits_into_a_blob() {
        let limits = |pairs: &[(&str, &str)]| {
            let env = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            let env = env.collect();
            let resolution = resolve(&RawConfig::from_env(&env), None);
            (
                resolution.config.limits.tool_result >> 20,
                resolution.problems.iter().map(ToString::to_string).collect::<String>(),
            )
        };
        let (result, blob) = ("IBEAM_LIMITS_TOOL_RESULT", "CURSOR_MAX_BLOB_SIZE");
        assert_eq!(limits(&[(result, "24MiB")]), (24, String::new()));
        let (_, problem) = limits(&[(result, "25MiB")]);
        assert!(
            problem.contains("`limits.tool_result` must be at most half of `limits.blob_size`"),
            "{problem}"
        );
        assert_eq!(limits(&[(result, "25MiB"), (blob, "50MiB")]), (25, String::new()));
        // The default follows.
        assert_eq!(limits(&[(blob, "10MiB")]), (5, String::new()));
    }
}
