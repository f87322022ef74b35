//! Cursor's API: the sign-in that is kept here, and the way there.

use ibeam_core::auth::jwt;
use secrecy::{ExposeSecret as _, SecretString};

use super::{DoctorSubject, network};
use crate::doctor::{
    findings::{ApiFindings, CredentialFindings, NoCredential, TokenOrigin},
    report::Check,
};
use ibeam_server::{
    auth::{self, AuthFileError, CredentialSource, DiscoverError, Here},
    clock,
    files::FileError,
    net,
    tasks::Tasks,
};

pub(super) async fn look(
    subject: &DoctorSubject<'_>,
    here: Option<&Here>,
    tasks: &Tasks,
) -> ApiFindings {
    (subject.progress)(Check::Credential);
    let credential = credential(subject, here);
    let network = match subject.offline {
        true => None,
        false => {
            (subject.progress)(Check::Network);
            Some(network::look(subject.config, tasks).await)
        }
    };
    ApiFindings { credential, network }
}

/// Whether requests can be sent: the backend answers, and there is a sign-in.
pub(super) fn is_open(agent: &ApiFindings) -> bool {
    let answers = agent.network.as_ref().is_some_and(|way| matches!(way.answer, Some(Ok(_))));
    let theirs = agent.network.as_ref().and_then(|way| way.answer.clone()?.ok().flatten());
    let now = theirs.map_or_else(clock::unix_seconds, |clock| clock.theirs);
    let usable = agent.credential.as_ref().is_ok_and(|credential| {
        credential.renewable || credential.expires.is_none_or(|end| end > now)
    });
    answers && usable
}

fn credential(
    subject: &DoctorSubject<'_>,
    here: Option<&Here>,
) -> Result<CredentialFindings, NoCredential> {
    if let Some(token) = &subject.config.access_token {
        let credential = auth::Credential::of_access_token(token.clone());
        let given = match subject.token_from.strip_prefix("env ") {
            Some(name) => TokenOrigin::Variable(name.to_owned()),
            None => TokenOrigin::Setting,
        };
        let source = match &given {
            TokenOrigin::Variable(name) => name.clone(),
            _ => "the setting `access_token`".to_owned(),
        };
        return Ok(described(source, given, &credential));
    }
    let Some(here) = here else {
        return Err(NoCredential::Unusable(auth::local_user::NoHome.to_string()));
    };
    let discovery = here.discover().map_err(|error| match &error {
        DiscoverError::File(AuthFileError::File(
            FileError::Exposed { .. } | FileError::Link { .. },
        )) => NoCredential::Exposed,
        DiscoverError::File(_) | DiscoverError::Variable(_) => {
            NoCredential::Unusable(net::chain(&error))
        }
    })?;
    let Some(found) = discovery.found else {
        let others = discovery.refused.iter().map(ToString::to_string).collect();
        return Err(NoCredential::Nobody(others));
    };
    let given = match &found.source {
        CredentialSource::Env(name) => TokenOrigin::Variable((*name).to_owned()),
        CredentialSource::ApiKeyEnv => TokenOrigin::Variable(auth::KEY_VARIABLE.to_owned()),
        _ => TokenOrigin::No,
    };
    Ok(described(found.source.to_string(), given, &found.credential))
}

fn described(
    source: String,
    given: TokenOrigin,
    credential: &auth::Credential,
) -> CredentialFindings {
    let token = credential.access_token.as_ref().map(SecretString::expose_secret);
    let claims = token.map(jwt::claims).unwrap_or_default();
    let known = credential.account.clone().unwrap_or_default();
    CredentialFindings {
        source,
        account: claims.email.or(known.email).or(claims.subject).or(known.sub),
        issued: claims.issued,
        expires: claims.expires.or(credential.expires),
        renewable: credential.refresh_token.is_some() || credential.api_key.is_some(),
        given,
    }
}
