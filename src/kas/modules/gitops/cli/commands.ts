import type { ModuleCli } from '../../../command/command.ts'

export const gitopsCli: ModuleCli = [
  {
    help: ['gitops ...', "show the status of an agent's GitOps sources, and forget one: kas gitops --help"],
    commands: [
      { words: 'gitops status', load: async () => (await import('./status.ts')).status },
      { words: 'gitops forget', load: async () => (await import('./forget.ts')).forget },
    ],
  },
]
