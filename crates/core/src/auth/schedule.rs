//! When a token is to be renewed. All times are seconds since 1970.

use super::jwt::Claims;

/// Tokens that live longer than this get the long margin.
const LONG_LIVED: u64 = 60 * 60;
const LONG_MARGIN: u64 = 5 * 60;
const SHORT_MARGIN: u64 = 60;
/// The assumed lifetime of a token that does not state it.
const UNSAID: u64 = 60 * 60;
/// Clocks that differ by less are taken for equal: the service reports whole seconds, and
/// its answer was under way for a while.
const TOLERANCE: i64 = 5;

/// The service's clock, as far as it is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Skew {
    /// Theirs minus ours.
    offset: i64,
}

impl Skew {
    /// What the service's clock shows when ours shows `local`.
    #[must_use]
    pub fn server_time(self, local: u64) -> u64 {
        local.saturating_add_signed(self.offset)
    }

    /// An answer said what time it is there.
    pub fn note_date(&mut self, server: u64, local: u64) {
        let offset = difference(server, local);
        self.offset = if offset.abs() < TOLERANCE { 0 } else { offset };
    }

    /// A token was issued in what we take for the future: our clock is late.
    pub fn note_issued(&mut self, issued: Option<u64>, local: u64) {
        let Some(issued) = issued else { return };
        let ahead = difference(issued, self.server_time(local));
        if ahead >= TOLERANCE {
            self.offset = self.offset.saturating_add(ahead);
        }
    }
}

fn difference(one: u64, other: u64) -> i64 {
    let one = i64::try_from(one).unwrap_or(i64::MAX);
    one.saturating_sub(i64::try_from(other).unwrap_or(i64::MAX))
}

/// When a token was issued and when it expires, by the service's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetime {
    /// From here on it is to be renewed; it is still good.
    pub renew: u64,
    pub end: u64,
}

impl Lifetime {
    /// `now` is the service's time. `fresh`: the token was handed out just now, so it
    /// cannot be over, whatever the clocks say. `jitter` is a random number in `0..1`:
    /// programs that share a token need not all come at once.
    #[must_use]
    pub fn of(claims: &Claims, now: u64, fresh: bool, jitter: f64) -> Self {
        let said = claims.expires.map(|end| end.saturating_sub(claims.issued.unwrap_or(now)));
        let lives = said.filter(|lives| *lives > 0).unwrap_or(UNSAID);
        let end = match claims.expires {
            Some(end) if end > now || !fresh => end,
            _ => now.saturating_add(lives),
        };
        let margin = if lives > LONG_LIVED { LONG_MARGIN } else { SHORT_MARGIN };
        // A very short life is used for half of it at least.
        let margin = margin.min(lives / 2);
        let jitter = if jitter.is_finite() { jitter.clamp(0.0, 1.0) } else { 0.0 };
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "< 60")]
        #[expect(clippy::cast_precision_loss, reason = "< 300")]
        let early = ((margin / 5) as f64 * jitter) as u64;
        Self { renew: end.saturating_sub(margin + early), end }
    }

    #[must_use]
    pub fn is_due(&self, now: u64) -> bool {
        now >= self.renew
    }

    #[must_use]
    pub fn is_over(&self, now: u64) -> bool {
        now >= self.end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_800_000_000;

    fn claims(issued: Option<u64>, expires: Option<u64>) -> Claims {
        Claims { issued, expires, ..Claims::default() }
    }

    fn of(issued: Option<u64>, expires: Option<u64>, fresh: bool) -> Lifetime {
        Lifetime::of(&claims(issued, expires), NOW, fresh, 0.0)
    }

    #[test]
    fn renewal_margin_depends_on_the_lifetime() {
        for (lives, margin) in
            [(5_184_000, 300), (3601, 300), (3600, 60), (600, 60), (120, 60), (60, 30), (10, 5)]
        {
            let life = of(Some(NOW), Some(NOW + lives), true);
            assert_eq!(life.end, NOW + lives);
            assert_eq!(life.end - life.renew, margin, "{lives}");
            assert!(!life.is_due(NOW), "{lives}");
            assert!(life.is_due(life.renew) && !life.is_over(life.renew));
            assert!(life.is_over(life.end));
        }
        // Its whole life counts, not what is left of it.
        let old = of(Some(NOW - 5_000_000), Some(NOW + 200), false);
        assert!(old.is_due(NOW) && !old.is_over(NOW));
    }

    #[test]
    fn jitter_only_makes_renewal_earlier() {
        for (jitter, margin) in
            [(0.0, 300), (0.5, 330), (1.0, 360), (f64::NAN, 300), (7.0, 360), (-1.0, 300)]
        {
            let life = Lifetime::of(&claims(Some(NOW), Some(NOW + 9_000)), NOW, true, jitter);
            assert_eq!(life.end - life.renew, margin, "{jitter}");
        }
    }

    #[test]
    fn token_without_expiry_lives_an_hour() {
        let life = of(None, None, false);
        assert_eq!((life.renew, life.end), (NOW + 3540, NOW + 3600));
    }

    #[test]
    fn expired_token_is_unusable_unless_brand_new() {
        let (issued, expires) = (Some(NOW - 10_000), Some(NOW - 6_400));
        assert!(of(issued, expires, false).is_over(NOW));
        // Our clock is hours ahead and we do not know it: the token lives as long as it says.
        let fresh = of(issued, expires, true);
        assert_eq!((fresh.renew, fresh.end), (NOW + 3540, NOW + 3600));
        // Without a beginning, the usual hour.
        assert_eq!(of(None, expires, true).end, NOW + 3600);
        // Nonsense: it ends before it begins.
        assert!(of(Some(NOW), Some(NOW - 1), false).is_over(NOW));
    }

    #[test]
    fn server_clock_is_used() {
        let mut skew = Skew::default();
        assert_eq!(skew.server_time(NOW), NOW);
        skew.note_date(NOW - 7_200, NOW);
        assert_eq!(skew.server_time(NOW + 10), NOW - 7_190);
        skew.note_date(NOW + 2, NOW);
        assert_eq!(skew.server_time(NOW), NOW, "seconds are noise");
        skew.note_date(0, u64::MAX);
        assert_eq!(skew.server_time(5), 0);
    }

    #[test]
    fn token_issued_in_the_future_corrects_our_clock() {
        let mut skew = Skew::default();
        skew.note_issued(Some(NOW + 3_600), NOW);
        assert_eq!(skew.server_time(NOW), NOW + 3_600);
        // A day behind, a token of ten minutes: it is not over, and not due.
        let mut skew = Skew::default();
        let issued = NOW + 86_400;
        skew.note_issued(Some(issued), NOW);
        let claims = claims(Some(issued), Some(issued + 600));
        let life = Lifetime::of(&claims, skew.server_time(NOW), false, 0.0);
        assert!(!life.is_due(skew.server_time(NOW + 500)));
        assert!(life.is_due(skew.server_time(NOW + 540)));
        // The past proves nothing.
        let before = skew;
        skew.note_issued(Some(NOW - 86_400), NOW);
        skew.note_issued(None, NOW);
        assert_eq!(skew, before);
    }
}
