package main

// configTemplate is what config init writes. Each key stands in it commented out, with the
// value that holds without it, or with an example where it has none.
const configTemplate = `# Holdpoint's configuration. A key that is not known is an error, so that a misspelt limit
# is never no limit. Check it with: holdpoint config check
# The daemon reads it again by itself when it changes; what it cannot take over while it
# runs is said in its log and in status. The file must be writable by its owner alone and
# lie outside every workspace.

# Life of undo credentials, and what all stores together may hold.
#keep = "30d"
#store_max = "10GiB"
# Where displaced files are kept: "" beside the state or the root, "in-root" inside it.
#store = ""
# "relaxed" flushes no change: faster, undo is kept, and a power cut can take an acknowledged
# change with both versions of the file. Said in status as long as it holds.
#durability = ""

# Further protected patterns, in the syntax of .gitignore. They only add.
#protected = ["deploy/**"]

# What the flags of serve say; a flag that is given wins.
#[serve]
#roots = ["NAME=/path/to/project"]
#listen = "127.0.0.1:7117"
#review_auth = "passphrase"

# How long a card waits for a person, by tier; "0s" waits for ever.
#[deadlines]
#T4 = "60m"

# What happens then: reject, pause or auto_deny. Time never approves.
#[on_timeout]
#T4 = "reject"

# When a call takes two people; 0 and false are never.
#[two_reviewers]
#files = 0
#bytes = 0
#protected = false
#unrecoverable = false

# Programs. confinement is "" (what can be had), "required" or "off".
#[process]
#confinement = ""
#env = []
#session_idle = "30s"
#max_processes = 4096
# Memory of one run, of all its processes together where a control group was handed to the daemon, else of each.
#max_memory = "4GiB"
# Processor time of each process.
#max_cpu = "10m"
# The control group, where it is not found by itself; one that cannot be used is confinement that is missing.
#cgroup = "/sys/fs/cgroup/holdpoint"
#max_timeout = "10m"
# What is kept before every program that runs for real, so that what it does to it can be undone; patterns as in an ignore file.
#snapshot = []
# A rehearsal that is fully confined and without network runs without asking anybody; what
# it would change is a card. What matches rehearse_outputs is dropped without one.
#rehearse_without_review = false
#rehearse_outputs = []

# The clearance that an operation needs; 1 where absent.
#[floors]
#delete_file = 1

# What callers may do, whatever they ask for. A token names its profile; "default" is for
# those that name none.
#[profiles.default]
#about = ""
#visible = false
#require_approval = true
#allow_read = true
#allow_write = true
#allow_edit = true
#allow_patch = true
#allow_copy = true
#allow_backup = true
#allow_delete = true
#allow_move = true
#allow_rollback = true
#allow_batch = true
#allow_exec = true
#allow_undo = true
#allow_switch = true
#clearance = 1
#mode = "auto"
#roots = []
#max_change = 0
#max_targets = 0
#max_timeout = "10m"
# Arguments that win over what a call says.
#[profiles.default.set.edit_file]
#backup = true

# Who is told of held calls.
#[[notify]]
#kind = "command"
#command = ["/usr/local/bin/tell-me"]
`
