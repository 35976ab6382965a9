import type { ModuleCli } from '../../../command/command.ts'

export const viewsCli: ModuleCli = [
  {
    help: ['tree|get|health ...', 'show what runs in a cluster, its health and causes: kas tree --help'],
    commands: [
      { words: 'tree', load: async () => (await import('./tree.ts')).tree },
      { words: 'get', load: async () => (await import('./get.ts')).get },
      { words: 'health', load: async () => (await import('./health.ts')).health },
    ],
  },
  {
    help: ['views role ...', 'print the rights that agentk needs to show more: kas views --help'],
    commands: [{ words: 'views role', load: async () => (await import('./views-role.ts')).viewsRole }],
  },
]
