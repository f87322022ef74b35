//! `ibeam completions`: a script that lets a shell complete our commands and options.

use clap::{Args, Command, CommandFactory as _, builder::PossibleValuesParser};
use clap_complete::Shell;

use super::{Cli, print};
use crate::clients::CLIENTS;

#[derive(Debug, Args)]
#[command(after_help = "\
Save the script where your shell looks for completions, then start a new shell:

  bash        ibeam completions bash > ~/.local/share/bash-completion/completions/ibeam
  zsh         ibeam completions zsh > ~/.zfunc/_ibeam
              with `fpath+=~/.zfunc` before `compinit` in ~/.zshrc
  fish        ibeam completions fish > ~/.config/fish/completions/ibeam.fish
  powershell  ibeam completions powershell >> $PROFILE
  elvish      ibeam completions elvish >> ~/.config/elvish/rc.elv")]
pub(super) struct Completions {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

impl Completions {
    pub(super) fn run(&self) -> anyhow::Result<()> {
        let mut script = Vec::new();
        let mut command = visible();
        for name in ["setup", "undo"] {
            // Only here: what is typed wrong gets a better answer from the command itself.
            let names = CLIENTS.iter().map(|client| client.name);
            command = command.mut_subcommand(name, |command| {
                command.mut_arg("client", |arg| arg.value_parser(PossibleValuesParser::new(names)))
            });
        }
        clap_complete::generate(self.shell, &mut command, "ibeam", &mut script);
        print(String::from_utf8_lossy(&script).trim_end())
    }
}

/// Our command without what `--help` does not show either. Generators do.
pub(super) fn visible() -> Command {
    let command = Cli::command();
    let shown = |command: &&Command| !command.is_hide_set();
    let mut out = Command::new("ibeam")
        .version(env!("CARGO_PKG_VERSION"))
        .args(command.get_arguments().cloned())
        .subcommands(command.get_subcommands().filter(shown).cloned());
    if let Some(about) = command.get_about() {
        out = out.about(about.clone());
    }
    if let Some(about) = command.get_long_about() {
        out = out.long_about(about.clone());
    }
    if let Some(help) = command.get_after_help() {
        out = out.after_help(help.clone());
    }
    out
}
