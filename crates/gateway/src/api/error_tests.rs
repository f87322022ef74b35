use std::{fmt::Write as _, time::Duration};

use http_body_util::BodyExt as _;
use ibeam_core::error::{ErrorCode, TurnError};

use super::response;

/// The table of the decisions: every code, with its status and headers.
#[tokio::test]
async fn every_code() {
    let mut table = String::new();
    for code in ErrorCode::ALL {
        let response = response(&TurnError::new(code, "what happened").param("field"));
        write!(table, "{code:?} {}", response.status().as_u16()).unwrap();
        for name in ["retry-after", "x-should-retry", "www-authenticate"] {
            if let Some(value) = response.headers().get(name) {
                write!(table, " {name}={}", value.to_str().unwrap()).unwrap();
            }
        }
        let body = response.into_body().collect().await.unwrap().to_bytes();
        writeln!(table, "\n  {}", str::from_utf8(&body).unwrap()).unwrap();
    }
    insta::assert_snapshot!(table);
}

#[test]
fn waits_are_rounded_up() {
    for (wait, expect) in [(0, "0"), (1, "1"), (3000, "3"), (3001, "4")] {
        let error = TurnError::new(ErrorCode::RateLimited, "slow down");
        let response = response(&error.retry_after(Duration::from_millis(wait)));
        assert_eq!(response.headers()["retry-after"], expect);
    }
}

#[tokio::test]
async fn the_cause_stays_inside() {
    let error = TurnError::new(ErrorCode::Internal, "sorry").cause("at line 7");
    let body = response(&error).into_body().collect().await.unwrap().to_bytes();
    assert!(!str::from_utf8(&body).unwrap().contains("line 7"));
}
