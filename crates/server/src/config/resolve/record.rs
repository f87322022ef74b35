//! Recordings of turns.

use super::Resolver;
use crate::config::{RecordConfig, SettingKey};

impl Resolver<'_> {
    pub(super) fn record(&mut self) -> RecordConfig {
        let config = RecordConfig {
            dir: self.place(SettingKey::RecordDir),
            texts: self.switch(SettingKey::RecordTexts),
            bytes: self.size(SettingKey::RecordBytes),
        };
        if config.texts && config.dir.is_none() {
            let origin = self.found(SettingKey::RecordTexts).origin;
            let text =
                "has no effect without a folder for recordings: set `record.dir`, or --record";
            self.problem(SettingKey::RecordTexts, &origin, text);
        }
        config
    }
}
