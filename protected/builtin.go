package protected

// group is a part of the built-in list with the reason for it.
type group struct {
	name, why string
	patterns  []string
}

// builtin is the list that nothing can take from. A pattern has no trailing slash, so
// that it also covers a link in place of the directory; one with a slash inside begins
// with **/ to hold at any depth.
//
// What is here takes effect without a further step that a person sees (opening a folder,
// the next git or agent start, a push), or changes who approves what, or is a secret.
// Files that only a build or a test run would execute are left out: that run waits itself.
var builtin = []group{
	{"default", "the policy's own list: repository, secrets, keys and the pipeline at the root", []string{
		".git", ".env", ".env.*", "*.pem", "*.key", "id_rsa*", "id_ed25519*", ".ssh",
		"/.github/workflows", "/.gitlab-ci.yml",
	}},
	{"daemon", "says what this daemon protects", []string{WorkspaceFile, ".holdpoint.toml"}},
	{"repository", "steers version control, which runs hooks and programs named there", []string{
		".gitmodules", ".gitconfig", ".hg", ".jj", ".svn",
	}},
	{"agent", "steers coding agents, the tools they may start and what they may do unasked", []string{
		".mcp.json", "mcp.json", ".claude", "CLAUDE.md", "CLAUDE.local.md", ".cursor", ".cursorrules", ".codex",
		".agents", "AGENTS.md", ".gemini", "GEMINI.md", ".windsurf", ".windsurfrules", ".kiro", ".roo", ".roomodes",
		".clinerules", ".junie", ".continue", ".amazonq", ".openclaw", ".opencode", "opencode.json", ".goosehints",
		".aider.conf.yml", "**/.github/copilot-instructions.md", "**/.github/instructions", "**/.github/prompts",
		"SKILL.md",
	}},
	{"editor", "is read, and its tasks run, when the folder is opened", []string{
		".vscode", "*.code-workspace", ".idea", ".zed", ".fleet", ".nvim.lua", ".exrc", ".vimrc", ".devcontainer",
		".devcontainer.json", ".dir-locals.el",
	}},
	{"pipeline", "is run with secrets by a push", []string{
		"**/.github/workflows", "**/.github/actions", "action.yml", "action.yaml", ".gitlab-ci.yml", "**/.gitlab/ci",
		".circleci", "Jenkinsfile", "azure-pipelines.yml", ".azure-pipelines", ".buildkite", "bitbucket-pipelines.yml",
		".drone.yml", ".woodpecker.yml", ".woodpecker", "**/.forgejo/workflows", "**/.gitea/workflows", ".travis.yml",
		"cloudbuild.yaml", "CODEOWNERS", "renovate.json", "**/.github/dependabot.yml",
	}},
	{"start-up", "runs by itself on a change of directory, a commit or the start of a shell", []string{
		".envrc", ".env.fish", "mise.toml", ".mise.toml", ".husky", ".githooks", "lefthook.yml", ".lefthook.yml",
		".pre-commit-config.yaml", ".bashrc", ".bash_profile", ".profile", ".zshrc", ".zprofile", ".zshenv",
		".ripgreprc", "**/.config/fish", "**/.config/systemd",
	}},
	{"secret", "is, or names, a secret; harm from it cannot be taken back", []string{
		"*.p12", "*.pfx", "*.jks", "*.keystore", "*.kdbx", "id_ecdsa*", ".netrc", ".npmrc", ".pypirc",
		".git-credentials", "**/.docker/config.json", "**/.kube/config", "kubeconfig", ".aws", ".gnupg", ".azure",
		"**/.config/gcloud", "credentials.json", "service-account*.json", "*.tfstate", "*.tfvars", ".terraformrc",
		".vault-token",
	}},
}

// Ten returns the ten patterns of the policy document, the first of the built-in ones.
func Ten() []string { return append([]string(nil), builtin[0].patterns...) }
