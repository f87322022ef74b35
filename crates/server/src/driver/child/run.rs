//! One process for one turn.

use std::sync::Arc;

use ibeam_core::{
    error::TurnError,
    peer::child::{ChildStart, Exit, FromChild, Ready},
};
use tokio::sync::OwnedSemaphorePermit;

use super::{
    ChildEnd, ChildLink, arguments,
    kit::Kit,
    link,
    process::{Over, Process},
    session::Session,
    spawn::spawn,
    workspace::Workspace,
};
use crate::mcp::host::Room;

/// Starts the process of a turn.
///
/// # Errors
/// It cannot be started, or too many run already.
pub(super) async fn open(kit: &Arc<Kit>, start: ChildStart) -> Result<ChildLink, TurnError> {
    let program = kit.program().await?;
    let place = kit.place().await?;
    let room = kit.room(&start.tools).await?;
    kit.workspaces.vacated(&start.conversation).await;
    let workspace = Arc::new(kit.workspace(Some(&start.conversation)).await?);
    kit.furnish(&workspace, room.as_ref().map(Room::address)).await?;
    let args = arguments::run(&start, &kit.terms(&workspace, kit.beside(&start)))?;
    let (child, pipes) = spawn(workspace.start(program), &args, &kit.tasks)?;
    let process = Process::new(child, pipes, &kit.tasks);
    let (link, end) = link();
    let run = ChildRun { kit: Arc::clone(kit), process, workspace, room, end, _place: place };
    kit.tasks.spawn("cursor-agent run", run.go());
    Ok(link)
}

/// In the order in which they go, if the task is dropped.
struct ChildRun {
    kit: Arc<Kit>,
    process: Process,
    workspace: Arc<Workspace>,
    room: Option<Room>,
    end: ChildEnd,
    _place: OwnedSemaphorePermit,
}

impl ChildRun {
    async fn go(mut self) {
        let ready = Ready {
            workspace: self.workspace.path().to_string_lossy().into_owned(),
            host: self.room.as_ref().map(Room::address),
            greeted: false,
            session: None,
        };
        self.end.tell(FromChild::Ready(ready)).await;
        // Nobody looks for a process that ends with its turn.
        let mut session = Session::default();
        let over = self.process.serve(&mut self.end, &mut self.room, &mut session).await;
        if matches!(over, Over::Released | Over::Exited(Exit { code: Some(0), .. })) {
            self.kit.look_back(self.room.as_ref());
        }
        let exit = match over {
            Over::Exited(exit) => Some(exit),
            Over::Released => {
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
