//! What a host runs by itself, by the names that its programs look for: files, folders of them, and what of git's
//! configuration runs nothing.

/// Below a folder that the program may write, a project or a home. `.git` itself where it is a file: it says where the
/// repository is.
pub(super) const FILES: [&str; 53] = [
    ".git",
    ".envrc",
    ".bashrc",
    ".bash_profile",
    ".bash_login",
    ".bash_logout",
    ".bash_aliases",
    ".profile",
    ".zshrc",
    ".zshenv",
    ".zprofile",
    ".zlogin",
    ".zlogout",
    ".xprofile",
    ".xsessionrc",
    ".vimrc",
    ".exrc",
    ".tmux.conf",
    ".cargo/config.toml",
    ".cargo/config",
    ".cshrc",
    ".tcshrc",
    ".kshrc",
    ".mkshrc",
    ".login",
    ".xinitrc",
    ".xsession",
    ".pam_environment",
    ".Rprofile",
    ".nvim.lua",
    ".nvimrc",
    ".pnpmfile.cjs",
    ".devcontainer.json",
    ".lefthook.yml",
    ".lefthook.yaml",
    "lefthook.yaml",
    ".vscode/mcp.json",
    ".zed/tasks.json",
    ".mise.toml",
    "mise.toml",
    ".config/fish/config.fish",
    ".vscode/tasks.json",
    ".vscode/settings.json",
    ".vscode/launch.json",
    ".mcp.json",
    ".cursor/mcp.json",
    ".cursor/hooks.json",
    ".gemini/settings.json",
    "lefthook.yml",
    ".claude/settings.json",
    ".claude/settings.local.json",
    ".pre-commit-config.yaml",
    ".devcontainer/devcontainer.json",
];
/// Whose entries are run.
pub(super) const FOLDERS: [&str; 9] = [
    ".idea/runConfigurations",
    ".local/bin",
    ".config/environment.d",
    ".githooks",
    ".husky",
    ".husky/_",
    ".config/autostart",
    ".config/systemd/user",
    ".config/fish/conf.d",
];
pub(super) const CONFIGURATIONS: [&str; 2] = [".gitconfig", ".config/git/config"];
/// Folders above what is shown in which one of those may lie.
pub(super) const DEEPEST: usize = 3;
/// Sections and keys of git-config(1) that run no program and name no file with settings: what git itself writes where a
/// repository is made, cloned and branched.
pub(super) const RUN_NOTHING: [(&str, &[&str]); 7] = [
    (
        "core",
        &[
            "repositoryformatversion",
            "filemode",
            "bare",
            "logallrefupdates",
            "worktree",
            "ignorecase",
            "precomposeunicode",
            "symlinks",
            "autocrlf",
            "eol",
        ],
    ),
    ("user", &["name", "email"]),
    (
        "remote",
        &[
            "url",
            "pushurl",
            "fetch",
            "push",
            "tagopt",
            "mirror",
            "prune",
            "promisor",
            "partialclonefilter",
        ],
    ),
    (
        "branch",
        &["remote", "merge", "rebase", "description", "pushremote"],
    ),
    ("submodule", &["url", "active", "branch"]),
    (
        "extensions",
        &["objectformat", "partialclone", "worktreeconfig"],
    ),
    ("init", &["defaultbranch"]),
];
