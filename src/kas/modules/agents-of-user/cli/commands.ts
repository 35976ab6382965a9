import type { ModuleCli } from '../../../command/command.ts'

export const agentsOfUserCli: ModuleCli = [
  {
    task: 'reach',
    help: ['agents', 'list the agents that let you in'],
    commands: [{ words: 'agents', load: async () => (await import('./agents.ts')).agents }],
  },
]
