import type { CommandEntry, CommandGroup } from '../command/command.ts'
import { agentsOfUserCli } from '../modules/agents-of-user/cli/commands.ts'
import { gitopsCli } from '../modules/gitops/cli/commands.ts'
import { viewsCli } from '../modules/views/cli/commands.ts'

/** These read or edit the directory file. */
const ofDirectory = (words: string): CommandEntry => ({
  words,
  load: async () => (await import('./directory-commands.ts')).directoryCommand(words),
})

const directory: CommandGroup = {
  help: ['agent|token|user|kubeconfig ...', 'list and edit who is who in a directory file: kas agent --help'],
  commands: [
    ...['agent', 'agent create', 'agent list', 'agent show', 'agent delete', 'agent rotate'],
    ...['token', 'token create', 'token list', 'token show', 'token delete', 'token revoke', 'token rotate'],
    ...['user', 'user create', 'user list', 'user show', 'user delete', 'user rotate'],
    'kubeconfig',
  ].map(ofDirectory),
}

/** Ask a running replica. */
const status: CommandGroup = {
  help: ['status|route ...', 'ask a running replica who is there, and where a call would go'],
  commands: [
    { words: 'status', load: async () => (await import('./status.ts')).status },
    { words: 'route', load: async () => (await import('./route.ts')).route },
  ],
}

const log: CommandGroup = {
  help: ['log ...', 'show who did what by way of a running replica: kas log --help'],
  commands: [{ words: 'log', load: async () => (await import('./log.ts')).log }],
}

const loadSessions = async () => (await import('./sessions.ts')).sessions
const sessions: CommandGroup = {
  help: ['sessions ...', 'show what lasts at all replicas, and end it: kas sessions --help'],
  commands: [
    { words: 'sessions', load: loadSessions },
    { words: 'sessions end', load: loadSessions },
  ],
}

const completion: CommandGroup = {
  help: ['completion bash|zsh|fish', 'print what makes the shell propose words and options: kas completion --help'],
  commands: [{ words: 'completion', load: async () => (await import('./completion/completion.ts')).completion }],
}

const checkConfig: CommandGroup = {
  help: ['check-config ...', 'say whether files of kas, of agents, the directory can be used'],
  commands: [{ words: 'check-config', load: async () => (await import('./check-config/check-config.ts')).checkConfig }],
}

const doctor: CommandGroup = {
  help: ['doctor ...', 'check what a configuration names, and say what is wrong, and what to do'],
  commands: [{ words: 'doctor', load: async () => (await import('./doctor/doctor.ts')).doctor }],
}

/** In the order of `kas --help`; a feature is a line here. */
export const commandGroups: readonly CommandGroup[] = [
  directory,
  ...agentsOfUserCli,
  status,
  log,
  sessions,
  ...viewsCli,
  ...gitopsCli,
  completion,
  checkConfig,
  doctor,
]
