import type { ModuleCli } from '../../../command/command.ts'

export const gitopsCli: ModuleCli = [
  {
    task: 'gitops',
    help: ['gitops status', "show the status of an agent's sources, or wait for a commit"],
    commands: [{ words: 'gitops status', load: async () => (await import('./status.ts')).status }],
  },
  {
    task: 'gitops',
    help: ['gitops forget SOURCE', 'keep what a removed source has made, and forget the source'],
    commands: [{ words: 'gitops forget', load: async () => (await import('./forget.ts')).forget }],
  },
]
