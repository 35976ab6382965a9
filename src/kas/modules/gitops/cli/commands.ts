import type { Command, ModuleCli } from '../../../command/command.ts'

const directive = (word: string) => async () => {
  const { directiveCommands } = await import('./directives.ts')
  return directiveCommands[word] as Command
}
const directiveWords = ['approve', 'pause', 'resume', 'resync']

export const gitopsCli: ModuleCli = [
  {
    task: 'gitops',
    help: ['gitops status', "show the status of an agent's sources, or wait for a commit"],
    commands: [{ words: 'gitops status', load: async () => (await import('./status.ts')).status }],
  },
  {
    task: 'gitops',
    help: ['gitops wait', 'wait until a commit is in the cluster and its objects are healthy'],
    commands: [{ words: 'gitops wait', load: async () => (await import('./wait.ts')).wait }],
  },
  {
    task: 'gitops',
    help: ['diff [DIR]', 'show what a change would do to the cluster, before it is merged'],
    commands: [{ words: 'diff', load: async () => (await import('./diff/diff.ts')).diff }],
  },
  {
    task: 'gitops',
    help: ['gitops drift SOURCE', 'show what differs between Git and the cluster, field by field'],
    commands: [{ words: 'gitops drift', load: async () => (await import('./drift.ts')).drift }],
  },
  {
    task: 'gitops',
    help: ['gitops hold KIND/NAME', 'keep a change by hand for a time, although Git has it otherwise'],
    commands: [{ words: 'gitops hold', load: async () => (await import('./hold.ts')).hold }],
  },
  {
    task: 'gitops',
    help: ['gitops approve SOURCE', 'approve the deletions of a source; also pause, resume, resync SOURCE'],
    commands: directiveWords.map((word) => ({ words: `gitops ${word}`, load: directive(word) })),
  },
  {
    task: 'gitops',
    help: ['gitops forget SOURCE', 'keep what a removed source has made, and forget the source'],
    commands: [{ words: 'gitops forget', load: async () => (await import('./forget.ts')).forget }],
  },
]
