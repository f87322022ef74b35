use super::*;

const MODEL: &str = "claude-4.6-sonnet";

fn taught(ratios: &[u64]) -> Calibration {
    let mut all = Calibration::default();
    for ratio in ratios {
        all.learn(MODEL, 1000, *ratio);
    }
    all
}

fn factor(all: &Calibration) -> u32 {
    all.measure(Family::Claude, MODEL).per_mille.unwrap()
}

#[test]
fn few_answers_do_not_calibrate() {
    let before = factor(&Calibration::default());
    assert_eq!(before, 1200);
    assert_eq!(factor(&taught(&[1400; ENOUGH - 1])), before);
    assert_eq!(factor(&taught(&[1400; ENOUGH])), 1400);
}

#[test]
fn outliers_do_not_change_the_factor() {
    let mut all = taught(&[1310, 1300, 1290, 1305, 1295, 1300]);
    for odd in [2900, 510, 2800] {
        assert!(all.learn(MODEL, 1000, odd));
    }
    assert!((1290..=1310).contains(&factor(&all)), "{}", factor(&all));
    // What no tokenizer can come to is not even kept.
    assert!(!all.learn(MODEL, 1000, 100));
    assert!(!all.learn(MODEL, 1000, 9000));
    assert!(!all.learn(MODEL, 1000, u64::MAX));
    assert!(!all.learn(MODEL, SHORTEST - 1, SHORTEST));
    assert!(!all.learn(MODEL, 0, 0));
}

#[test]
fn factor_follows_a_lasting_change() {
    let mut all = taught(&[1200; RATIOS]);
    for _ in 0..RATIOS {
        all.learn(MODEL, 1000, 1500);
    }
    assert_eq!(factor(&all), 1500);
}

#[test]
fn each_model_has_its_own_factor() {
    let mut all = taught(&[1400; 10]);
    for _ in 0..10 {
        assert!(all.learn("gemini-3-pro", 2000, 1800));
    }
    assert_eq!(factor(&all), 1400);
    assert_eq!(all.measure(Family::Gemini, "gemini-3-pro").per_mille, Some(900));
    assert_eq!(all.measure(Family::Claude, "claude-4.5-haiku").per_mille, Some(1200));
    // There is nothing to learn about a model whose tokenizer is public.
    for _ in 0..10 {
        all.learn("gpt-5.5", 1000, 1400);
    }
    assert_eq!(all.measure(Family::Gpt, "gpt-5.5").per_mille, None);
}

#[test]
fn number_of_models_is_limited() {
    let mut all = Calibration::default();
    for number in 0..MODELS * 2 {
        for _ in 0..RATIOS * 2 {
            all.learn(&format!("model-{number}"), 1000, 1234);
        }
        // One that is used stays known.
        for _ in 0..ENOUGH {
            all.learn(MODEL, 1000, 1400);
        }
    }
    assert_eq!(all.models.len(), MODELS);
    assert!(all.models.iter().all(|learned| learned.ratios.len() <= RATIOS));
    assert_eq!(factor(&all), 1400);
    assert_eq!(all.measure(Family::Other, "model-0").per_mille, Some(1100));
}

#[test]
fn only_usable_reports_are_counted() {
    let sample = |bytes: usize, reported| Sample { text: "word ".repeat(bytes / 5), reported };
    // The first count loads it.
    let _ = Vocabulary::default().count("a");
    assert!(Calibration::wants(Family::Claude, MODEL, &sample(1000, 200)));
    assert!(!Calibration::wants(Family::Gpt, "gpt-5.5", &sample(1000, 200)));
    assert!(!Calibration::wants(Family::Claude, MODEL, &sample(100, 200)));
    assert!(!Calibration::wants(Family::Claude, MODEL, &sample(100 << 10, 30_000)));
    assert!(!Calibration::wants(Family::Claude, MODEL, &sample(1000, SHORTEST - 1)));
    assert!(Calibration::count(&sample(1000, 200)) >= 200);
}
