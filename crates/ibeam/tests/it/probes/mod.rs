//! `ibeam probe` against the simulator: every question settled in every way that a switch has, and
//! what the driver does with the finding.

mod acting;
mod command;
mod settling;
mod stopping;

use ibeam_core::{
    models::UnknownName,
    peer::agent::probe::{ProbeFinding, ProbeItem, ProbeQuestion, ProbeSubject, schedule},
};
use ibeam_server::{
    config::{Config, Transport},
    driver::probing::{Probed, Prober},
    tasks::Tasks,
};
use ibeam_sim::{BehaviourChanges, Preset, Quirk, Sim, SimConfig};

/// The service of autumn with these switches, and a model that likes its own tools.
fn service(switches: &[(&str, &str)]) -> SimConfig {
    let autumn = BehaviourChanges::from(Preset::Autumn);
    let changed = |changes: BehaviourChanges, (name, value): &(&str, &str)| {
        changes.with(name, value).unwrap()
    };
    SimConfig {
        quirks: [Quirk::NativeToolsFirst].into_iter().collect(),
        ..SimConfig::from(switches.iter().fold(autumn, changed))
    }
}

/// A probe of one service.
struct ProbeLab {
    sim: Sim,
    prober: Prober,
    tasks: Tasks,
}

impl ProbeLab {
    fn new(sim: SimConfig, transport: Transport) -> Self {
        let (sim, tasks, mut config) = (Sim::new(sim), Tasks::new(), Config::default());
        config.upstream.transport = transport;
        let prober = Prober::open(&config, Some(&sim), &tasks);
        Self { sim, prober, tasks }
    }

    /// Puts a question to the first model that it is for, or to `model`.
    async fn ask(&self, letter: char, model: Option<&str>) -> Probed {
        let question = ProbeQuestion::from_letter(&letter.to_string()).unwrap();
        let list = self.prober.models().await.unwrap();
        let named: Vec<String> = model.map(ToOwned::to_owned).into_iter().collect();
        let items = schedule(&[question], &list, &named, UnknownName::Refuse).unwrap();
        self.put(&items[0]).await
    }

    async fn put(&self, item: &ProbeItem) -> Probed {
        let subject = ProbeSubject {
            model: item.model.clone().unwrap_or_default(),
            seed: "seed".into(),
            hold: std::time::Duration::from_secs(120),
            ..ProbeSubject::default()
        };
        self.prober.ask(item, &subject, |_| {}).await
    }

    /// Ends it, and checks that no run was left open.
    async fn assert_gone(self) {
        let Self { sim, prober, tasks } = self;
        drop(prober);
        for _ in 0..2000 {
            if tasks.is_empty() && sim.stats().open_streams == 0 {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
        panic!("{} tasks, {} streams", tasks.len(), sim.stats().open_streams);
    }
}

/// What a question comes to at a service with these switches.
async fn find(letter: char, switches: &[(&str, &str)], transport: Transport) -> ProbeFinding {
    let lab = ProbeLab::new(service(switches), transport);
    let probed = lab.ask(letter, None).await;
    assert!(probed.stop.is_none(), "{letter} {switches:?}: {:?}", probed.stop);
    let violations = lab.sim.stats().violations;
    assert_eq!(violations, Vec::<String>::new(), "{letter} {switches:?}");
    lab.assert_gone().await;
    probed.finding
}
