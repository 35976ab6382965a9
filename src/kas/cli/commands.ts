import type { CommandEntry, CommandGroup } from '../command/command.ts'
import { agentsOfUserCli } from '../modules/agents-of-user/cli/commands.ts'
import { gitopsCli } from '../modules/gitops/cli/commands.ts'
import { viewsCli } from '../modules/views/cli/commands.ts'

/** Entry of a command that reads or edits the directory file. */
const ofDirectory = (words: string): CommandEntry => ({
  words,
  load: async () => (await import('./directory-commands.ts')).directoryCommand(words),
})

const directory: readonly CommandGroup[] = [
  {
    task: 'reach',
    help: ['kubeconfig', 'add agents to a kubeconfig'],
    commands: [ofDirectory('kubeconfig')],
  },
  {
    task: 'administer',
    help: ['agent', 'list and edit agents in a directory file'],
    commands: ['agent', 'agent create', 'agent list', 'agent show', 'agent delete', 'agent rotate'].map(ofDirectory),
  },
  {
    task: 'administer',
    help: ['user', 'list and edit users in a directory file'],
    commands: ['user', 'user create', 'user list', 'user show', 'user delete', 'user rotate'].map(ofDirectory),
  },
  {
    task: 'administer',
    help: ['token', 'list and edit tokens of agents, users and CI jobs in a directory file'],
    commands: [
      ...['token', 'token create', 'token list', 'token show', 'token delete', 'token revoke', 'token rotate'],
    ].map(ofDirectory),
  },
]

const loadSessions = async () => (await import('./sessions.ts')).sessions

/** Commands that ask a running replica, or that read files of kas. */
const own: readonly CommandGroup[] = [
  {
    task: 'administer',
    help: ['sessions', 'list requests that last, at all replicas, and end them'],
    commands: [
      { words: 'sessions', load: loadSessions },
      { words: 'sessions end', load: loadSessions },
    ],
  },
  {
    task: 'administer',
    help: ['completion bash|zsh|fish', 'print the script by which a shell completes words and options'],
    commands: [{ words: 'completion', load: async () => (await import('./completion/completion.ts')).completion }],
  },
  {
    task: 'diagnose',
    help: ['status', 'show the replicas, and which of them has which agent'],
    commands: [{ words: 'status', load: async () => (await import('./status.ts')).status }],
  },
  {
    task: 'diagnose',
    help: ['route', 'show which way a call for an agent would go, and the reason'],
    commands: [{ words: 'route', load: async () => (await import('./route.ts')).route }],
  },
  {
    task: 'diagnose',
    help: ['log', 'show who did what'],
    commands: [{ words: 'log', load: async () => (await import('./log.ts')).log }],
  },
  {
    task: 'diagnose',
    help: ['check-config', 'check whether files of kas, of agents and of the directory can be used'],
    commands: [
      { words: 'check-config', load: async () => (await import('./check-config/check-config.ts')).checkConfig },
    ],
  },
  {
    task: 'diagnose',
    help: ['doctor', 'check what a configuration names, and show what is wrong and what to do'],
    commands: [{ words: 'doctor', load: async () => (await import('./doctor/doctor.ts')).doctor }],
  },
]

/** All commands: each feature is a line here, and `kas --help` sorts them by task. */
export const commandGroups: readonly CommandGroup[] = [
  ...viewsCli,
  ...agentsOfUserCli,
  ...gitopsCli,
  ...directory,
  ...own,
]
