//! What depends on the host name that a run is sent to. The simulator has one address, so the
//! name is that of the request.

use http::{Request, Version, header};

use super::{
    Sim,
    responses::{self, SimResponse},
};
use crate::{behaviour::RegionError, engine::region, scenario::Refuse, stream::BodyFormat};

/// The status with which a load balancer refuses the wrong version of HTTP.
const WRONG_HTTP: u16 = 464;

/// The service behind a host name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SimHost {
    /// Also any name that is not one of the service's.
    Api2,
    Agent,
    Agentn,
}

/// The name of the host that a request was sent to.
pub(super) fn name<B>(request: &Request<B>) -> &str {
    let header = request.headers().get(header::HOST).and_then(|value| value.to_str().ok());
    request.uri().host().or(header).unwrap_or_default()
}

impl SimHost {
    fn of<B>(request: &Request<B>) -> Self {
        let name = name(request);
        match name.split('.').next() {
            Some("agent") => Self::Agent,
            Some("agentn") => Self::Agentn,
            _ => Self::Api2,
        }
    }
}

/// The answer to a run that was sent to the wrong host.
pub(super) fn refusal<B>(sim: &Sim, request: &Request<B>) -> Option<SimResponse> {
    let behaviour = &sim.service.state.behaviour;
    let host = SimHost::of(request);
    if host == SimHost::Agentn && behaviour.host_agentn_464 && request.version() != Version::HTTP_2
    {
        return Some(responses::refusal(&Refuse::status(WRONG_HTTP)));
    }
    let refused = match behaviour.host_region_error {
        RegionError::Off => return None,
        RegionError::Api2 => SimHost::Api2,
        RegionError::Agent => SimHost::Agent,
        RegionError::Agentn => SimHost::Agentn,
    };
    let form = BodyFormat::of(request.headers()).unwrap_or(BodyFormat::Connect);
    (host == refused).then(|| responses::ended(form, &region()))
}
