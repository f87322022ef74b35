//! The backend `cli`: one process for each turn, which answers in stream-json.

use std::sync::Arc;

use ibeam_core::{
    backend::BackendKind,
    error::TurnError,
    peer::child::{ChildStart, Exit, FromChild, Ready, Speaker},
    peer::cli,
};

use super::{
    ChildDriver, ChildEnd, ChildLink, ChildProtocol, arguments, chats,
    kit::Kit,
    link,
    process::{Over, Process},
    spawn::spawn,
    workspace::Workspace,
};
use crate::{
    auth::AccessTokens, config::Config, driver::BoxFuture, limits::Permit, mcp::host::ToolRoom,
    tasks::Tasks,
};

/// The driver, and the sign-in of the CLI.
pub(in crate::driver) fn open(
    config: &Config,
    simulated: bool,
    tasks: &Tasks,
) -> (ChildDriver, AccessTokens) {
    ChildDriver::open(config, protocol, simulated, tasks)
}

pub(super) fn protocol(kit: &Arc<Kit>) -> Box<dyn ChildProtocol> {
    Box::new(ProcessEach(Arc::clone(kit)))
}

/// A process for each turn.
#[derive(Debug)]
struct ProcessEach(Arc<Kit>);

impl ChildProtocol for ProcessEach {
    fn kind(&self) -> BackendKind {
        BackendKind::Cli
    }

    fn speaker(&self) -> fn() -> Box<dyn Speaker> {
        || Box::<cli::CliSpeaker>::default()
    }

    fn open(&self, start: ChildStart) -> BoxFuture<'_, Result<ChildLink, TurnError>> {
        Box::pin(start_process(&self.0, start))
    }
}

async fn start_process(kit: &Arc<Kit>, start: ChildStart) -> Result<ChildLink, TurnError> {
    let program = kit.program().await?;
    let place = kit.place(start.owner).await?;
    let room = kit.room(&start.tools).await?;
    kit.workspaces.vacated(&start.conversation).await;
    let workspace = Arc::new(kit.workspace(Some(&start.conversation)).await?);
    if let Some(id) = &start.resume
        && !kit.may_have(id, &workspace).await
    {
        return Ok(lost_chat(kit, workspace));
    }
    kit.furnish(&workspace, room.as_ref().map(ToolRoom::address)).await?;
    let args = arguments::run(&start, &kit.terms(&workspace, kit.beside(&start)))?;
    let (child, pipes) = spawn(workspace.start(program), &args, &kit.tasks)?;
    let process = Process::new(child, pipes, &kit.tasks);
    let (link, end) = link();
    let run = ChildRun { kit: Arc::clone(kit), process, workspace, room, end, _place: place };
    kit.tasks.spawn("cursor-agent run", run.go());
    Ok(link)
}

/// A link that reports the conversation as lost, instead of an empty one.
fn lost_chat(kit: &Arc<Kit>, workspace: Arc<Workspace>) -> ChildLink {
    let (link, end) = link();
    let ready = Ready {
        workspace: workspace.path().to_string_lossy().into_owned(),
        host: None,
        greeted: false,
        session: None,
    };
    let kit_of_task = Arc::clone(kit);
    kit.tasks.spawn("cursor-agent lost chat", async move {
        kit_of_task.remove(workspace).await;
        end.tell(FromChild::Ready(ready)).await;
        end.tell(FromChild::Exited(Exit { code: Some(1), stderr: chats::LOST.to_owned() })).await;
    });
    link
}

/// If the task is dropped, the fields go in this order.
struct ChildRun {
    kit: Arc<Kit>,
    process: Process,
    workspace: Arc<Workspace>,
    room: Option<ToolRoom>,
    end: ChildEnd,
    _place: Permit,
}

impl ChildRun {
    async fn go(mut self) {
        let ready = Ready {
            workspace: self.workspace.path().to_string_lossy().into_owned(),
            host: self.room.as_ref().map(ToolRoom::address),
            greeted: false,
            session: None,
        };
        self.end.tell(FromChild::Ready(ready)).await;
        let over = self.process.serve(&mut self.end, &mut self.room).await;
        if matches!(over, Over::Released(_) | Over::Exited(Exit { code: Some(0), .. })) {
            self.kit.look_back(self.room.as_ref());
        }
        let exit = match over {
            Over::Exited(exit) => Some(exit),
            Over::Released(_) => {
                self.process.see_off().await;
                None
            }
            Over::Left => {
                self.process.end().await;
                None
            }
        };
        drop((self.process, self.room));
        self.kit.remove(self.workspace).await;
        if let Some(exit) = exit {
            self.end.tell(FromChild::Exited(exit)).await;
        }
    }
}
