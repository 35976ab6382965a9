import type { ModuleCli } from '../../../command/command.ts'

export const agentsOfUserCli: ModuleCli = [
  {
    help: ['agents ...', 'ask a running kas for the agents that let you in'],
    commands: [{ words: 'agents', load: async () => (await import('./agents.ts')).agents }],
  },
]
