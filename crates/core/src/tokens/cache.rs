//! What was counted before. Holds hashes and numbers, no texts.

use std::{collections::HashMap, hash::Hash};

/// A bounded memory that forgets what was not asked for lately: entries come into the young
/// half; when that is full it becomes the old one, and what was old is gone. What is found in
/// the old half is young again.
#[derive(Debug)]
pub struct Cache<K, V> {
    young: HashMap<K, V>,
    old: HashMap<K, V>,
    half: usize,
}

impl<K: Eq + Hash, V: Copy> Cache<K, V> {
    /// With room for this number of entries.
    #[must_use]
    pub fn new(room: usize) -> Self {
        Self { young: HashMap::new(), old: HashMap::new(), half: (room / 2).max(1) }
    }

    pub fn get(&mut self, key: &K) -> Option<V> {
        if let Some(value) = self.young.get(key) {
            return Some(*value);
        }
        let (key, value) = self.old.remove_entry(key)?;
        self.put(key, value);
        Some(value)
    }

    pub fn put(&mut self, key: K, value: V) {
        if self.young.len() >= self.half && !self.young.contains_key(&key) {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(key, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn used_entries_stay_and_size_is_limited() {
        let mut cache = Cache::new(100);
        cache.put(0, 0);
        for n in 1..1000 {
            assert_eq!(cache.get(&n), None);
            cache.put(n, n * 2);
            assert_eq!(cache.get(&n), Some(n * 2));
            assert_eq!(cache.get(&0), Some(0), "asked for all the time");
            assert!(cache.young.len() + cache.old.len() <= 100);
        }
        assert_eq!(cache.get(&1), None, "long ago");
        assert_eq!(cache.get(&998), Some(1996));
    }

    #[test]
    fn new_value_replaces_the_old_one() {
        let mut cache = Cache::new(2);
        cache.put('a', 1);
        cache.put('a', 2);
        assert_eq!(cache.get(&'a'), Some(2));
        cache.put('b', 3);
        assert_eq!((cache.get(&'a'), cache.young.len() + cache.old.len()), (Some(2), 2));
    }
}
