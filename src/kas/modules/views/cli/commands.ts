import type { ModuleCli } from '../../../command/command.ts'

export const viewsCli: ModuleCli = [
  {
    task: 'see',
    help: ['tree', 'show objects below what owns them, with their health and its cause'],
    commands: [{ words: 'tree', load: async () => (await import('./tree.ts')).tree }],
  },
  {
    task: 'see',
    help: ['get KIND', 'list objects with their health and its cause, the worst first'],
    commands: [{ words: 'get', load: async () => (await import('./get.ts')).get }],
  },
  {
    task: 'see',
    help: ['health', 'judge the health of objects, or wait for it, as a gate of a pipeline'],
    commands: [{ words: 'health', load: async () => (await import('./health.ts')).health }],
  },
  {
    task: 'administer',
    help: ['views role', 'print the rights that agentk needs to show more'],
    commands: [{ words: 'views role', load: async () => (await import('./views-role.ts')).viewsRole }],
  },
]
