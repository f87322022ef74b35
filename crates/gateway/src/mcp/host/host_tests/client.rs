//! The library's own client, over HTTP and TCP. It speaks to a Unix socket, since it has
//! no other way that needs no further libraries; what comes there is carried to the host.

use rmcp::{
    ClientLifecycleMode, ClientServiceExt as _, RoleClient, ServiceExt as _,
    model::ProtocolVersion,
    service::RunningService,
    transport::{
        StreamableHttpClientTransport, UnixSocketHttpClient,
        streamable_http_client::StreamableHttpClientTransportConfig,
    },
};
use tokio::net::{TcpStream, UnixListener};

use super::{
    calls::{Caller, params, said},
    *,
};

type Transport = StreamableHttpClientTransport<UnixSocketHttpClient>;

/// A way to the host for that client.
struct Carrier {
    folder: tempfile::TempDir,
}

impl Carrier {
    fn to(house: &House) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(folder.path().join("socket")).unwrap();
        let port = house.host.port.get().copied().unwrap();
        let tasks = house.tasks.clone();
        house.tasks.spawn("test", async move {
            while let Ok((mut here, _)) = listener.accept().await {
                tasks.spawn("test", async move {
                    let there = TcpStream::connect((std::net::Ipv4Addr::LOCALHOST, port)).await;
                    tokio::io::copy_bidirectional(&mut here, &mut there.unwrap()).await
                });
            }
        });
        Self { folder }
    }

    fn transport(&self, address: &HostAddress) -> Transport {
        let socket = self.folder.path().join("socket");
        let client = UnixSocketHttpClient::new(socket.to_str().unwrap(), &address.url);
        let config = StreamableHttpClientTransportConfig::with_uri(address.url.as_str())
            .auth_header(address.bearer.expose_secret());
        Transport::with_client(client, config)
    }
}

async fn round_trip(house: &mut House, client: &RunningService<RoleClient, Caller>) {
    let listed = client.list_all_tools().await.unwrap();
    assert_eq!(listed.len(), 2);
    assert!(house.room.seen());
    let answered = async {
        let asked = house.call().await;
        assert_eq!((asked.name.as_str(), asked.arguments.as_str()), ("b", r#"{"n":3}"#));
        // Until it has heard that its call waits.
        while client.service().0.lock().is_empty() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        house.room.answer(text(asked.id, "three"));
    };
    let (result, ()) = tokio::join!(client.call_tool(params("b", 3)), answered);
    assert_eq!(said(&result.unwrap()), "three");
    let given_up = tokio::select! {
        _ = client.call_tool_once(params("a", 4)) => panic!("nobody answered"),
        asked = house.call() => asked,
    };
    assert_eq!(house.event().await, RoomEvent::Dropped(given_up.id));
}

#[tokio::test]
async fn a_round_trip_with_a_session() {
    let mut house = House::with(&["a", "b"]).await;
    let carrier = Carrier::to(&house);
    let transport = carrier.transport(&house.room.address());
    let client = Caller::default().serve(transport).await.unwrap();
    round_trip(&mut house, &client).await;
    client.cancel().await.unwrap();
}

#[tokio::test]
async fn a_round_trip_without_sessions() {
    let mut house = House::with(&["a", "b"]).await;
    let carrier = Carrier::to(&house);
    let transport = carrier.transport(&house.room.address());
    let newest =
        ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] };
    let client = Caller::default().serve_with_lifecycle(transport, newest).await.unwrap();
    round_trip(&mut house, &client).await;
    client.cancel().await.unwrap();
}

#[tokio::test]
async fn the_wrong_bearer_does_not_connect() {
    let house = House::with(&["a", "b"]).await;
    let carrier = Carrier::to(&house);
    let address = HostAddress { bearer: SecretString::from("wrong"), ..house.room.address() };
    assert!(Caller::default().serve(carrier.transport(&address)).await.is_err());
    assert!(!house.room.seen());
}
